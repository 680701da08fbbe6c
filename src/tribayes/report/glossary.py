"""The page's words, for readers who did not read the paper."""

GLOSSARY = {
    "Sampled networks": (
        "The weights are not numbers but a probability distribution. Each sampled network is one draw of all weights; "
        "a prediction is the average of their answers."
    ),
    "Level and credible interval": (
        "The credible interval of a class at level 95 % leaves out 2.5 % of the sampled probabilities at either end."
    ),
    "Quite certain": (
        "The credible interval of the predicted class overlaps that of no other class. Otherwise the prediction is "
        "uncertain and deserves a second look. A higher level is harder to meet."
    ),
    "Entropy": "Total uncertainty of a prediction, in nats: 0 when one class has all the probability.",
    "Epistemic uncertainty": "The part due to not knowing the weights: the sampled networks disagree. More data help.",
    "Aleatoric uncertainty": "The part within each single network: the input is ambiguous. More data do not help.",
    "τ and ρ": (
        "τ is the standard deviation of a tensor's weights relative to their means: where it is large, the network "
        "tolerates much noise. ρ, between −½ and ½, is the correlation between neighbouring weights."
    ),
}
