"""Result files, the figures in them, and whether they reach the targets."""
