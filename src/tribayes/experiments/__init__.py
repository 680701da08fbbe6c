"""The paper's experiments: declared as data, trained to the end, evaluated and written down.

    setting → trainer → run folder → evaluation → results

`catalogue` names the experiments, `trainer` trains one, `side_by_side` several at once on a GPU.
"""
