"""Small discrete worlds with exact answers, and each method's estimator on the losses that the deep agents use."""
