// Rules K and W: the noise on second moments, and what it guarantees.

import { chiSquared, muImpliedBy, roundedGaussianVariance } from './functions.mjs'
import { require } from './refusal.mjs'
import { checkStrength, isAtLeast, isNear, isPowerOfTwo } from './strength.mjs'

const NOISE = {
  gaussian: 'rounded-gaussian',
  sulq: 'rounded-gaussian',
  'two-round': 'rounded-gaussian',
  laplace: 'discrete-laplace',
  wishart: 'wishart',
  'wishart-difference': 'wishart-difference',
  eigenvectors: null,
  'kapralov-talwar': null,
}
const PARAMETERS = {
  'rounded-gaussian': ['diagonal_sigma', 'off_diagonal_sigma'],
  'discrete-laplace': ['scale'],
  wishart: ['degrees_of_freedom', 'scale'],
  'wishart-difference': ['degrees_of_freedom', 'scale'],
}
const MOST = 1e9

export function checkCovariance({ columns, guarantee, second_moments: moments }) {
  require(guarantee.unit !== 'change', 'K1', 'changes of counts are no unit of second moments')
  const isTwoRounds = moments.mechanism === 'two-round'
  const p = columns.length
  const m = guarantee.max_rows ?? 1
  const isReplaced = guarantee.neighbours === 'replace-one'

  const allowed = isTwoRounds ? ['declared', 'none'] : ['declared']
  require(columns.every((each) => allowed.includes(each.bounds_obtained)), 'K1', 'a column has no declared bounds')
  require(columns.every((each) => each.missing !== 'center' && each.fill === null), 'K1', 'rows stand at a center')
  require(columns.every((each) => each.name !== '(constant)'), 'K1', 'a column is called as the constant is')
  require(NOISE[moments.mechanism] === moments.distribution, 'K2', 'the noise is that of another mechanism')
  checkMatrix(moments)
  const errors = [moments.estimated_diagonal_error, moments.estimated_off_diagonal_error]
  const isPair = errors.every((each) => each === null) || errors.every((each) => each !== null)
  require(isPair && (errors[0] === null || moments.distribution === null), 'K2', 'the estimated errors')

  const parts = [moments.first_round, moments.column_clip, moments.fourth_moment]
  require(parts.every((each) => (each !== null) === isTwoRounds), 'W1', 'the rounds are not stated as two')
  const raw = new Set(columns.map((column) => column.block ?? column.name)).size
  if (isTwoRounds) return checkTwoRounds(moments, guarantee, p, m, raw)

  require(moments.radius <= Math.sqrt(p) * (1 + 1e-9), 'K1', 'the radius is larger than any row')
  require(isReplaced || (guarantee.unit !== 'cell' && moments.constant > 0), 'K1', 'rows cannot come and go here')
  require(guarantee.bounds_mu === 0 && guarantee.centers_mu === 0, 'K1', 'costs that this release has not')
  if (moments.distribution === 'rounded-gaussian') {
    checkGaussian(guarantee)
    return checkStrength(guarantee, muOfRound(moments, guarantee), true)
  }
  checkPure(guarantee, moments)
  return checkMechanism(moments, guarantee, p, m, isReplaced)
}

function checkMatrix(matrix) {
  const { radius, constant, granularity: g, distribution, parameters } = matrix
  require(constant <= radius && Number.isInteger(256 * constant), 'K1', 'the constant')
  require(g === null || isPowerOfTwo(g), 'K2', 'the granularity is no power of two')
  const isKnown = distribution !== null
  const variances = [matrix.diagonal_variance, matrix.off_diagonal_variance]
  require(variances.every((each) => (each !== null) === isKnown) && (!isKnown || g !== null), 'K2', 'the variances')

  const names = PARAMETERS[distribution] ?? []
  const found = Object.keys(parameters)
  const isNamed = found.length === names.length && names.every((each) => parameters[each] > 0)
  require(isNamed, 'K2', 'the parameters are not those of the distribution')
  const n = parameters.degrees_of_freedom ?? 3
  require(Number.isInteger(n) && n >= 3, 'K2', 'the degrees of freedom')
  const exact = noiseOf(matrix, n)
  const stated = [matrix.diagonal_variance ?? 0, matrix.off_diagonal_variance ?? 0, matrix.bias]
  require(stated.every((each, index) => isNear(each, exact[index])), 'K2', 'the variances are not those of the noise')
}

// Both variances and the bias of a matrix's noise.
function noiseOf({ distribution, granularity: g, parameters }, n) {
  const { scale, diagonal_sigma: on, off_diagonal_sigma: off } = parameters
  switch (distribution) {
    case 'rounded-gaussian':
      return [...[on, off].map((sigma) => g ** 2 * roundedVariance(sigma / g)), 0]
    case 'discrete-laplace': {
      require(scale / g >= 0.05 && scale / g <= 2 ** 50, 'K2', 'the scale is too small or large for the grid')
      const variance = g ** 2 / (2 * Math.sinh(g / (2 * scale)) ** 2)
      return [variance, variance, 0]
    }
    case 'wishart':
      return [2 * n * scale ** 2 + g ** 2 / 12, n * scale ** 2 + g ** 2 / 12, n * scale]
    case 'wishart-difference':
      return [4 * n * scale ** 2 + g ** 2 / 12, 2 * n * scale ** 2 + g ** 2 / 12, 0]
    default:
      return [0, 0, 0]
  }
}

function roundedVariance(s) {
  require(s >= 0.05 && s <= 1e9, 'K2', 'the noise is too narrow or too wide for its grid')
  return roundedGaussianVariance(s)
}

function checkGaussian(guarantee) {
  const isMu = guarantee.accountant === 'gaussian-dp' && guarantee.mu !== null
  const isPlain = guarantee.excepted_delta === 0 || guarantee.discovery_mu > 0
  require(isMu && guarantee.epsilon === null && isPlain, 'K3', 'it is not accounted for by mu')
}

function muOfRound({ radius, constant, parameters }, guarantee) {
  const frobenius = guarantee.neighbours === 'replace-one' ? Math.SQRT2 : 1
  const moved = frobenius * (radius ** 2 + constant ** 2)
  const widest = Math.max(1 / parameters.diagonal_sigma, 1 / (Math.SQRT2 * parameters.off_diagonal_sigma))
  return (guarantee.max_rows ?? 1) * moved * widest
}

function checkPure(guarantee, { mechanism, granularity }) {
  const { epsilon, mu, rho, excepted_delta: excepted } = guarantee
  const isPure = guarantee.accountant === 'pure-epsilon' && epsilon !== null && mu !== null
  require(isPure, 'K3', 'it is not accounted for by epsilon')
  const isExcepted = mechanism !== 'laplace' && granularity !== null
  require(excepted > 0 === isExcepted, 'K4', 'a delta is excepted, or is not')
  require(isNear(mu, muImpliedBy(epsilon)), 'K3', `mu is ${muImpliedBy(epsilon)}, and not ${mu}`)
  require(isAtLeast(rho, Math.min(epsilon, muImpliedBy(epsilon)) ** 2 / 2), 'K3', 'rho is too small')
  for (const point of guarantee.epsilon_delta) {
    const left = -Math.expm1(Math.min(0, point.epsilon - epsilon)) / (1 + Math.exp(-epsilon))
    require(point.delta >= (excepted + (1 - excepted) * left) * (1 - 1e-5), 'K3', 'a point is too good')
  }
}

function checkMechanism({ mechanism, radius: r, constant: c, parameters }, guarantee, p, m, isReplaced) {
  const { epsilon } = guarantee
  const { scale, degrees_of_freedom: n } = parameters
  if (mechanism === 'laplace') {
    const moved = (r ** 2 * (p + 1)) / 2 + c * r * Math.sqrt(p) + (isReplaced ? 0 : c ** 2)
    require(isAtLeast(epsilon, (m * moved) / scale), 'K4', 'epsilon is too small')
  } else if (mechanism === 'wishart-difference') {
    const moved = (r ** 2 + c ** 2) * (isReplaced && p > 1 ? 2 : 1)
    require(n >= p + (c > 0) + 1, 'K4', 'the degrees of freedom are too few')
    require(isAtLeast(epsilon, (m * moved) / (2 * scale)), 'K4', 'epsilon is too small')
  } else if (mechanism === 'wishart') {
    require(m === 1, 'K4', 'the guarantee of Wishart noise is for one row')
    const s = (r ** 2 + (isReplaced ? 0 : c ** 2)) / scale
    const q = -s / Math.expm1(-(epsilon + s / 2) / (n / 2 - 1))
    const least = chiSquared(q, n) - Math.exp(epsilon) * chiSquared(q - s, n)
    require(guarantee.excepted_delta >= least * (1 - 1e-5), 'K5', 'the excepted delta is too small')
  }
}

function checkTwoRounds(final, guarantee, p, m, raw) {
  const { first_round: first, column_clip: clip, fourth_moment: fourth, margins } = final
  require(p >= 2 && guarantee.neighbours === 'replace-one', 'W1', 'two rounds of one column, or of rows that go')
  require(first.distribution === 'rounded-gaussian', 'W1', 'the noise of the first round')
  checkMatrix(first)
  require(first.constant > 0 && final.constant > 0, 'W1', 'a round has no constant')
  require(Math.max(first.radius, final.radius, clip) <= MOST, 'W2', 'a radius is too large')
  require(first.radius <= Math.sqrt(p) * clip * (1 + 1e-9), 'W2', 'the radius is larger than any row')

  const { granularity: g, sigma, total } = fourth
  const isOnGrid = isPowerOfTwo(g) && total % g === 0
  require(isOnGrid && sigma / g >= 0.05 && sigma / g <= 1e9, 'W3', 'the fourth moment is not on its grid')
  require(guarantee.bounds_mu > 0 && guarantee.centers_mu === 0, 'W4', 'the cost of what was found is not stated')
  checkGaussian(guarantee)
  const mus = [guarantee.bounds_mu, guarantee.discovery_mu, m / sigma, muOfRound(first, guarantee), muOfRound(final, guarantee)]
  if (margins) mus.push((m * Math.sqrt(2 * raw)) / margins.sigma)
  checkStrength(guarantee, Math.hypot(...mus), true)
}
