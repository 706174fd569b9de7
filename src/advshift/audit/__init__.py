"""How bad a classifier can get when the class mix moves: statistics, inference and the audit's record."""
