"""Wang, Xu & He (2019), Estimating sparse covariance matrix under differential privacy via thresholding."""
