"""Wang, Huai & Xu (2018), Differentially private sparse inverse covariance estimation."""
