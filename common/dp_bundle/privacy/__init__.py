"""mu, epsilon and delta and their inverses, and the noise that a number carries, with its exact variance."""
