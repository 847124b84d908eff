// Refusals: an error whose message begins with the number of the rule in docs/bundle-format.md.

export class Refusal extends Error {}

export function require(condition, rule, sentence) {
  if (!condition) throw new Refusal(`${rule}: ${sentence}`)
}
