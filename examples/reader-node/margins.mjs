// Rule D9: the histograms of a release by normal scores; and what follows from them, the shares and scores of cells.

import { normalQuantile, sum } from './functions.mjs'
import { hasLevelColumns } from './release.mjs'
import { require } from './refusal.mjs'
import { readTable } from './table.mjs'

export const MARGINS = 'data/margins.parquet'
const MOST_CELLS = 1024
const FARTHEST = 1e70
const NO_VALUE = '(no value)'

// The histograms, by raw column: its name, its levels, whether the last cell is of gaps, the ends between cells, counts.
export async function readMargins(file, member, release) {
  const raw = rawColumns(release)
  const levels = release.sources.flatMap((source) => source.levels)
  const shape = {
    names: ['column', 'level', 'low', 'high', 'count'],
    kinds: ['text', 'text', 'continuous', 'continuous', 'integer'],
    rows: Math.min(raw.length * MOST_CELLS, member.size + 65536),
    groupRows: 2 ** 20,
    labels: [...new Set([...raw.map((each) => each.name), ...levels, '', NO_VALUE])],
    rule: 'D9',
  }
  const [names, labels, lows, highs, counts] = await readTable(file, member, shape)
  require(counts.every((each) => typeof each === 'bigint'), 'D9', 'a count is no number')
  const noise = 1000 * release.second_moments.margins.sigma
  const isPossible = counts.every((each) => Number(each) >= -noise && Number(each) <= release.n_rows + noise)
  require(isPossible, 'D9', 'a count is one that rows and noise cannot give')

  let at = 0
  const found = raw.map((column) => {
    const start = at
    while (at < names.length && names[at] === column.name) at++
    const own = [labels, lows, highs, counts].map((values) => values.slice(start, at))
    return readMargin(column, ...own)
  })
  require(at === names.length, 'D9', 'there are cells of another column')
  return found
}

// The raw columns in the order in which they are published.
function rawColumns({ columns, sources }) {
  const firsts = new Map()
  for (const column of columns) if (!firsts.has(column.block ?? column.name)) firsts.set(column.block ?? column.name, column)
  const sourceOf = new Map(sources.map((source) => [source.columns[0], source]))
  return [...firsts].map(([name, { name: first, missing, bounds }]) => {
    const source = sourceOf.get(first)
    const hasGaps = missing === 'indicator' || (missing === 'midpoint' && bounds === null)
    return { name, levels: source?.levels ?? [], hasEnds: !source || !hasLevelColumns(source), hasGaps, bounds }
  })
}

function readMargin({ name, levels, hasEnds, hasGaps, bounds }, labels, lows, highs, counts) {
  const filled = counts.length - hasGaps
  const isNumbered = filled > 0 && filled <= MOST_CELLS && (levels.length === 0 || levels.length === filled)
  require(isNumbered, 'D9', `the histogram of ${name} has not its cells`)
  const due = [...(levels.length ? levels : new Array(filled).fill('')), ...(hasGaps ? [NO_VALUE] : [])]
  require(labels.every((each, cell) => each === due[cell]), 'D9', `the cells of ${name} are of other levels`)

  const edges = hasEnds ? highs.slice(0, filled - 1) : []
  const [low, high] = bounds ?? [-FARTHEST, FARTHEST]
  const isAscending = edges.every((each, cell) => low < each && each < high && !(each <= edges[cell - 1]))
  const ends = (inner) => counts.map((_, cell) => (hasEnds && cell < filled ? inner[cell] : NaN))
  const isSame = (found, expected) => found.every((each, cell) => Object.is(each, expected[cell]) || each === expected[cell])
  const areEnds = isSame(lows, ends([-Infinity, ...edges])) && isSame(highs, ends([...edges, Infinity]))
  require(isAscending && areEnds, 'D9', `the cells of ${name} do not follow each other`)
  return { name, levels, hasGaps, hasEnds, edges, counts: counts.map(Number) }
}

// The share of all rows in each cell.
export function sharesOf({ levels, hasGaps, counts }, rows, sigma) {
  const filled = counts.length - hasGaps
  const inner = counts.slice(0, filled)
  let [first, last] = [0, 0]
  if (!levels.length && filled > 20) {
    const together = [cellsTogether(inner, sigma), cellsTogether([...inner].reverse(), sigma)]
    if (together[0] + together[1] < filled) [first, last] = together
  }
  const before = sharedOut(inner.slice(0, first), filled).map((count) => count / rows)
  const behind = sharedOut(inner.slice(filled - last).reverse(), filled).reverse().map((count) => count / rows)
  const left = 1 - sum(before) - sum(behind)
  if (left <= 0) return nearest(counts.map((count) => count / rows), 1)
  const others = [...inner.slice(first, filled - last), ...counts.slice(filled)].map((count) => count / rows)
  const found = nearest(others, left)
  return [...before, ...found.slice(0, filled - first - last), ...behind, ...found.slice(filled - first - last)]
}

// The nearest shares that are not negative and add up to a total.
function nearest(kept, whole) {
  const falling = [...kept].sort((one, other) => other - one)
  let [total, level] = [0, 0]
  falling.forEach((each, index) => {
    total += each
    const excess = (total - whole) / (index + 1)
    if (each > excess) level = excess
  })
  return kept.map((each) => Math.max(each - level, 0))
}

// How many cells at the beginning are taken together, as their sum does not stand out from the noise.
function cellsTogether(counts, sigma) {
  let total = 0
  const found = counts.findIndex((count, cell) => {
    total += count
    const size = cell + 1
    const next = counts.slice(size, size + Math.max(size, 3))
    const score = total / (sigma * Math.sqrt(size))
    const after = sum(next) / (sigma * Math.sqrt(Math.max(next.length, 1)))
    return score > 4 || (score > 2 && after > 3) || count > 5 * sigma
  })
  return found < 0 ? counts.length : found
}

// The sum of counts at a beginning, shared out over their cells, each having a part of the next one's.
function sharedOut(counts, cells) {
  const parts = counts.map((_, cell) => Math.exp((-60 / cells) * (counts.length - 1 - cell)))
  return parts.map((part) => (Math.max(0, sum(counts)) * part) / sum(parts))
}

// The normal score of each cell of numbers.
export function scoresOf({ hasGaps }, shares, rows) {
  const filled = shares.slice(0, shares.length - hasGaps)
  const total = sum(filled)
  let below = 0
  return filled.map((share) => {
    if (total <= 0) return 0
    below += share
    return normalQuantile(Math.min(Math.max((below - share / 2) / total, 0.5 / rows), 1 - 0.5 / rows))
  })
}
