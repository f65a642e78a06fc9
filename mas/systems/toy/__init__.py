"""A cheap system of three predictors (plan, solve, finalize) without tools, to try optimizers on."""
