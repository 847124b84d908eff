// The functions that the rules on noise and guarantees need, to nearly all digits of a float64.

const SQRT_PI = Math.sqrt(Math.PI)

// exp(x^2) erfc(x) for x >= 0.
export function scaledErfc(x) {
  if (x < 2) return Math.exp(x * x) * (1 - erfSeries(x))
  let tail = 0 // the continued fraction, from its far end
  for (let k = 200; k > 0; k--) tail = k / 2 / (x + tail)
  return 1 / (SQRT_PI * (x + tail))
}

export function erfc(x) {
  if (x < 0) return 2 - erfc(-x)
  return x < 2 ? 1 - erfSeries(x) : Math.exp(-x * x) * scaledErfc(x)
}

function erfSeries(x) {
  let term = x
  let sum = x
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1)
    sum += term
  }
  return (2 / SQRT_PI) * Math.exp(-x * x) * sum
}

// The delta of mu-GDP at an epsilon (Balle and Wang 2018, theorem 8), without overflow.
export function gaussianDelta(mu, epsilon) {
  const a = epsilon / mu - mu / 2
  const b = epsilon / mu + mu / 2
  return 0.5 * erfc(a / Math.SQRT2) - Math.exp(-a * a / 2) * 0.5 * scaledErfc(b / Math.SQRT2)
}

// 2 Phi^-1(e^epsilon / (1 + e^epsilon)), by Newton's method on the logarithm of the tail.
export function muImpliedBy(epsilon) {
  if (epsilon < 1e-3) return Math.sqrt(Math.PI / 2) * epsilon * (1 + epsilon * epsilon * (Math.PI / 48 - 1 / 12))
  const target = -(epsilon + Math.log1p(Math.exp(-epsilon)))
  let x = Math.sqrt(2 * epsilon) / 2
  for (let n = 0; n < 100; n++) {
    const scaled = 0.5 * scaledErfc(x / Math.SQRT2) // exp(x^2 / 2) times the tail beyond x
    const step = (Math.log(scaled) - (x * x) / 2 - target) * scaled * Math.sqrt(2 * Math.PI)
    x = Math.max(x + step, x / 2)
    if (Math.abs(step) < 1e-15 * x) break
  }
  return 2 * x
}

// The number that a standard normal one is below with this probability, by Newton's method.
export function normalQuantile(probability) {
  if (probability > 0.5) return upperQuantile(1 - probability)
  return -upperQuantile(probability)
}

// The number that a standard normal one exceeds with this probability, at most 1/2.
function upperQuantile(tail) {
  let x = Math.sqrt(Math.max(0, -2 * Math.log(2 * tail)))
  for (let n = 0; n < 100; n++) {
    const scaled = 0.5 * scaledErfc(x / Math.SQRT2) // exp(x^2 / 2) times the tail beyond x
    const step = (Math.log(scaled) - (x * x) / 2 - Math.log(tail)) * scaled * Math.sqrt(2 * Math.PI)
    x = Math.max(x + step, x / 2)
    if (Math.abs(step) < 1e-15 * Math.max(x, 1)) break
  }
  return x
}

// The chi-squared distribution function.
export function chiSquared(x, degrees) {
  if (x <= 0) return 0
  const a = degrees / 2
  const y = x / 2
  const front = Math.exp(a * Math.log(y) - y - logGamma(a))
  if (y < a + 1) {
    let term = 1 / a
    let sum = term
    for (let n = 1; term > 1e-17 * sum; n++) {
      term *= y / (a + n)
      sum += term
    }
    return front * sum
  }
  let fraction = 0
  for (let k = 5000; k > 0; k--) fraction = (k * (a - k)) / (y + 2 * k + 1 - a + fraction)
  return 1 - front / (y + 1 - a + fraction)
}

// The logarithm of the gamma function, by Stirling's series.
function logGamma(x) {
  if (x < 20) return logGamma(x + 1) - Math.log(x)
  const s = 1 / (x * x)
  const series = 1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series / x
}

export function roundedGaussianVariance(s) {
  if (s < 1) {
    const terms = range(1, 12).map((k) => (2 * k - 1) * erfc((k - 0.5) / (s * Math.SQRT2)))
    return sum(terms)
  }
  const terms = range(1, 3).map((n) => {
    const factor = 4 * s * s + 1 / (Math.PI * n) ** 2
    return (-1) ** n * factor * Math.exp(-2 * (Math.PI * s * n) ** 2)
  })
  return s * s + 1 / 12 + sum(terms)
}

export function discreteGaussianVariance(sigma) {
  const ks = range(1, 12)
  if (sigma < 1) {
    const weights = ks.map((k) => Math.exp((-k * k) / (2 * sigma * sigma)))
    return (2 * sum(ks.map((k) => k * k * weights[k - 1]))) / (1 + 2 * sum(weights))
  }
  const duals = ks.map((n) => Math.exp(-2 * (Math.PI * sigma * n) ** 2))
  const moment = (2 * sum(ks.map((n) => n * n * duals[n - 1]))) / (1 + 2 * sum(duals))
  return sigma * sigma * (1 - (2 * Math.PI * sigma) ** 2 * moment)
}

export function range(first, last) {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
}

export function sum(numbers) {
  return numbers.reduce((total, each) => total + each, 0)
}
