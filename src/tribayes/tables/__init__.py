"""Tables of numbers: rows in, a calibrated network with intervals out; torch alone, whoever reads the columns."""

from tribayes.tables.fitted import FittedTable
from tribayes.tables.fitting import fit_table
from tribayes.tables.recipe import Network, Recipe, multilayer_perceptron

__all__ = ["FittedTable", "Network", "Recipe", "fit_table", "multilayer_perceptron"]
