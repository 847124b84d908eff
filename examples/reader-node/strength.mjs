// What rules on rows and on second moments have in common: numbers that are near, and a guarantee for a mu.

import { gaussianDelta } from './functions.mjs'
import { require } from './refusal.mjs'

const SLACK = 1e-9
const CURVE_SLACK = 1e-5

export const isNear = (one, other) => Math.abs(one - other) <= SLACK * Math.max(Math.abs(one), Math.abs(other))
export const isAtLeast = (one, least) => one >= least * (1 - SLACK)
export const isPowerOfTwo = (x) => Number.isInteger(Math.log2(x)) && 2 ** Math.log2(x) === x

// G2 and G4 for a mu that the noise leaves.
export function checkStrength(guarantee, mu, withCurve) {
  require(mu > 0 && mu < Infinity, 'G2', 'the bounds and the noise give no guarantee')
  require(guarantee.mu === null || isAtLeast(guarantee.mu, mu), 'G2', `mu is ${mu}, and not ${guarantee.mu}`)
  require(isAtLeast(guarantee.rho, mu ** 2 / 2), 'G2', `rho is ${mu ** 2 / 2}, and not ${guarantee.rho}`)
  for (const { epsilon, delta } of withCurve ? guarantee.epsilon_delta : []) {
    const least = gaussianDelta(mu, epsilon) + guarantee.excepted_delta
    require(delta >= least * (1 - CURVE_SLACK), 'G4', `delta at ${epsilon} is ${least}, and not ${delta}`)
  }
}
