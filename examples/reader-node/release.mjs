// Rules B, C, N, G and T, and R of a release by itself: what the manifest states, and what follows from it.

import { checkCovariance } from './covariance.mjs'
import { discreteGaussianVariance, erfc, muImpliedBy, normalQuantile, roundedGaussianVariance } from './functions.mjs'
import { require } from './refusal.mjs'
import { checkStrength, isAtLeast, isNear, isPowerOfTwo } from './strength.mjs'

const FOUND = ['private-quantiles', 'private-histogram']

export function checkRelease(release) {
  const { columns, guarantee, kind } = release
  release.columns.forEach((column) => checkColumn(column, release))
  require(new Set(columns.map((each) => each.name)).size === columns.length, 'C1', 'two columns have one name')
  require((release.second_moments !== null) === (kind === 'covariance'), 'C3', 'the kind is not that of the data')
  checkTime(release.lineage.created)
  checkWords(release)
  checkSources(release)

  require(release.sigma_derived_from_data === (guarantee === null), 'C5', 'a guarantee is missing, or too many')
  if (guarantee) {
    require(release.conditional_mu === null, 'C5', 'the guarantee is conditional')
    const isEntity = guarantee.unit === 'entity'
    require((guarantee.entity !== null) === isEntity && (guarantee.max_rows !== null) === isEntity, 'G1', 'the entity')
    checkPublic(release)
  }
  checkDiscovery(release)
  checkMargins(release)
  if (kind === 'covariance') {
    require(guarantee, 'K1', 'a covariance release has a guarantee')
    checkCovariance(release)
  } else if (guarantee) {
    checkRowsGuarantee(guarantee, columns)
  } else {
    checkWithoutGuarantee(release)
  }
  checkTotals(release)
}

// Rule F1 to F4: what was found of the columns before the release, and what that cost.
function checkDiscovery({ discovery: found, guarantee, n_rows: rows, kind, columns, sources, second_moments: moments }) {
  const stated = guarantee?.discovery_mu ?? 0
  require((found !== null) === stated > 0, 'F1', 'what was found of the columns is stated with its cost, or not at all')
  if (!found) return
  const { n_counted: counted, n_gaps: gaps, n_listed: listed, counts_sigma, levels_sigma, threshold } = found
  const isSearched = counted + gaps > 0 && (levels_sigma !== null) === listed > 0 && (threshold !== null) === listed > 0
  const isWithin = found.kinds.length <= counted && found.levels.length <= listed && found.n_rows <= rows
  require(isSearched && isWithin, 'F2', 'more was found than was looked for')
  const isByMu = guarantee.mu !== null && (kind === 'rows' || moments.first_round !== null)
  require(isByMu, 'F1', 'the release is not accounted for by mu')

  const m = guarantee.max_rows ?? 1
  const ofLevels = listed ? Math.sqrt(2 * listed) / levels_sigma : 0
  const mu = m * Math.hypot(Math.sqrt(2 * counted + gaps) / counts_sigma, ofLevels)
  require(isAtLeast(stated, mu), 'F3', `finding the columns cost mu = ${mu}, and not ${stated}`)
  const tail = listed ? 0.5 * erfc((threshold - 0.5 - m) / levels_sigma / Math.SQRT2) : 0
  const delta = Math.min(2 * listed * m * tail, 1)
  require(guarantee.excepted_delta >= delta * (1 - 1e-5), 'F3', 'the excepted delta is too small')

  const published = columns.map((column) => column.block ?? column.name)
  const withLevels = sources.filter((source) => source.levels.length).map((source) => source.name)
  const isThere = found.kinds.every((name) => published.includes(name)) && found.levels.every((name) => withLevels.includes(name))
  require(isThere, 'F4', 'something was found of a column that is not there')
}

// Rules H1 and H2: histograms, and the scores that follow from them.
function checkMargins({ columns, sources, second_moments: moments }) {
  const margins = moments?.margins ?? null
  require(margins === null || moments.mechanism === 'two-round', 'H1', 'histograms go with two rounds')
  const isOrigin = columns.every((column) => (column.standard_obtained === 'margins') === (margins !== null))
  require(isOrigin, 'H1', 'standards follow from histograms exactly where there are some')
  const others = new Set(sources.flatMap((each) => (hasLevelColumns(each) ? each.columns : each.columns.slice(1))))
  const isDue = (column) => (column.transform?.name === 'scores') === (margins !== null && !others.has(column.name))
  require(columns.every(isDue), 'H1', 'other columns have scores than those of numbers beside histograms')
  const isSized = margins === null || (margins.sigma >= 0.05 && margins.sigma <= 1e9)
  require(isSized, 'H2', 'the noise of the histograms is too narrow or too wide')
}

function checkColumn(column, release) {
  const { bounds, ball, bounds_obtained: obtained, noise } = column
  const limited = bounds !== null ? ['declared', ...FOUND].includes(obtained) : obtained === (ball ? 'ball' : 'none')
  require(limited && !(bounds && ball), 'C2', `the bounds of ${column.name} were not obtained so`)
  require(!bounds || bounds[0] < bounds[1], 'C2', `the bounds of ${column.name} are no interval`)
  const isInside = column.fill === null || (bounds && bounds[0] <= column.fill && column.fill <= bounds[1])
  require(isInside, 'C2', `the fill of ${column.name} is outside its bounds`)

  const isRows = release.kind === 'rows'
  require((noise !== null) === isRows, 'C3', `the noise of ${column.name} is that of another kind of release`)
  const isWhole = noise !== null && noise.distribution !== 'rounded-gaussian'
  require(isWhole === (column.kind === 'integer'), 'C3', `the noise of ${column.name} is of another kind`)
  const radius = (each) => each.ball?.radius ?? null
  require(!isRows || radius(column) === radius(release.columns[0]), 'C3', 'not all columns have one ball')

  const rounds = release.second_moments?.first_round ? 2 : 0
  require(column.standards.length === rounds, 'C4', `${column.name} has not one standard for each round`)
  require((column.standard_obtained !== null) === rounds > 0, 'C4', `the standards of ${column.name} have no origin`)
  require(column.transform === null || rounds, 'C6', `${column.name} has a transform, which is for two rounds`)
  if (noise?.distribution === 'randomized-response') checkResponse(column)
  else if (noise) checkNoise(column.name, noise)
  const isOfBlock = column.block !== null && column.missing !== 'indicator' && noise && !ball
  const indicates = noise?.distribution === 'randomized-response' || isOfBlock
  const isZeroOrOne = bounds !== null && bounds[0] === 0 && bounds[1] === 1
  require(!indicates || isZeroOrOne, 'B2', `${column.name} indicates a level, and its bounds are not 0 and 1`)
  const isCount = column.kind === 'integer' && column.block === null && bounds !== null
  require(column.max_change === null || isCount, 'B5', `${column.name} has a max_change, and is no count`)
}

function checkResponse({ name, block, noise: { n_levels: levels, replaced } }) {
  require(Number.isInteger(replaced * 2 ** 32), 'B4', `the probability of ${name} is not a multiple of 2^-32`)
  require(block !== null || levels === 2, 'B4', `${name} has more levels than its two values`)
}

function checkSources({ sources, columns }) {
  const differ = (list) => new Set(list).size === list.length
  require(differ(sources.map((each) => each.name)), 'B1', 'two sources have one name')
  require(differ(sources.flatMap((each) => each.columns)), 'B1', 'a column has two sources')
  const named = new Map(columns.map((column) => [column.name, column]))
  for (const source of sources) checkSource(source, named)
  const others = sources.flatMap(({ kind, columns: own }) => (kind === 'number' ? own.slice(1) : own))
  const isScaled = (name) => named.get(name).transform?.name === 'asinh'
  require(!others.some(isScaled), 'C6', 'what stands for no number has a transform')

  const starts = columns.filter((column, index) => column.block && column.block !== columns[index - 1]?.block)
  const blocks = sources.filter((source) => source.columns.length > 1)
  const withGaps = new Set(blocks.filter((source) => !hasLevelColumns(source)).map((source) => source.name))
  require(starts.length === blocks.length && differ(starts.map((each) => each.block)), 'B3', 'a block does not stand together')
  for (const { name, columns: own } of blocks) {
    const members = columns.filter((column) => column.block === name)
    const isSame = members.length === own.length && members.every((column, index) => column.name === own[index])
    require(isSame, 'B3', `the columns of ${name} are not those of its source`)
    if (withGaps.has(name)) {
      checkPair(name, members)
      continue
    }
    const shared = (column) => JSON.stringify({ ...column, name: '', standards: [], standard_obtained: null })
    const isAlike = members.every((column) => shared(column) === shared(members[0]))
    require(isAlike, 'B3', `the columns of ${name} are not all alike`)
    const replaced = members[0].noise?.n_levels ?? own.length
    require(replaced === own.length, 'B4', `the levels of ${name} are replaced by those of another list`)
  }
  const indicated = columns.filter((column) => column.missing === 'indicator')
  require(indicated.every((column) => withGaps.has(column.block)), 'B6', 'gaps are indicated by no column')
  const isApart = !indicated.length || columns.every((column) => column.missing !== 'center')
  require(isApart, 'B6', 'gaps are indicated where rows with gaps stand at the center')
}

// A number and the indicator of its gaps.
function checkPair(name, pair) {
  const isPair = pair[0].missing === 'indicator' && pair[1].missing === 'refuse'
  require(isPair, 'B6', `the columns of ${name} are not a number and the indicator of its gaps`)
  const isContinuous = pair.every((column) => column.kind === 'continuous')
  require(isContinuous, 'B6', `a number and the indicator of its gaps, of ${name}, have other noise`)
}

export const hasLevelColumns = ({ kind, levels }) => kind === 'category' && levels.length > 2

function numbersOfColumns({ kind, levels }) {
  if (hasLevelColumns({ kind, levels })) return [levels.length]
  return kind === 'number' ? [2] : ['boolean', 'category'].includes(kind) ? [1] : [1, 2]
}

function checkSource(source, named) {
  const { name, kind, levels, columns } = source
  require(new Set(levels).size === levels.length, 'B1', `${name} has a level twice`)
  const isOfLevels = ['boolean', 'category', 'ordered'].includes(kind)
  require(isOfLevels ? levels.length >= 2 : levels.length === 0, 'B1', `${name} has not the levels of its kind`)
  require(kind !== 'boolean' || levels.length === 2, 'B1', `${name} has not two levels`)
  const counted = [source.other, source.gaps].filter((level) => level !== null)
  require(counted.every((level) => levels.includes(level)), 'B1', `${name} counts values as a level that is none`)
  const isPublished = numbersOfColumns(source).includes(columns.length)
  require(isPublished, 'B1', `${name} has not a column for each level`)
  const block = columns.length > 1 ? name : null
  const isThere = columns.every((column) => named.has(column) && named.get(column).block === block)
  require(isThere, 'B3', `${name} is published as columns that are not there, or are not its block`)
}

function checkNoise(name, { distribution, sigma, granularity, variance }) {
  const isDiscrete = distribution === 'discrete-gaussian'
  require(isPowerOfTwo(granularity) && !(isDiscrete && granularity !== 1), 'N1', `the grid of ${name} is none`)
  const s = sigma / granularity
  require(s >= 0.05 && s <= 1e9, 'N1', `the noise of ${name} is too narrow or too wide for its grid`)
  const exact = isDiscrete ? discreteGaussianVariance(sigma) : granularity ** 2 * roundedGaussianVariance(s)
  require(isNear(variance, exact), 'N2', `the variance of ${name} is ${exact}, and not ${variance}`)
}

function checkTime(created) {
  const time = new Date(created)
  const exists = !Number.isNaN(time.getTime()) && time.toISOString() === created.replace('Z', '.000Z')
  require(exists && !created.startsWith('0000'), 'P5', 'there is no such time')
}

const WORDS_SINCE = {
  'two-round': '3',
  'wishart-difference': '3',
  'private-quantiles': '3',
  'randomized-response': '4',
  change: '4',
  indicator: '5',
  number: '5',
}

function checkWords({ columns, sources, second_moments: moments, guarantee, cumulative, format_version: version }) {
  const words = columns.flatMap((each) => [each.bounds_obtained, each.noise?.distribution, each.missing])
  words.push(...sources.map((each) => each.kind))
  const units = [guarantee?.unit, cumulative.unit]
  const later = [...words, moments?.mechanism, ...units].find((word) => (WORDS_SINCE[word] ?? '1') > version)
  require(!later, 'P4', `${later} is no word of this format version`)
}

// The mu of every cell of a row: of a category that of two of its columns together, of a number with an indicator of its
// gaps the larger one of two values' and of a value's and a gap's (G2).
function cellMus(unit, columns) {
  const width = ({ bounds, ball }) => (ball ? 2 * ball.radius * ball.scale : bounds ? bounds[1] - bounds[0] : Infinity)
  const reach = (column) => Math.min(width(column), unit === 'change' ? (column.max_change ?? Infinity) : Infinity)
  const mus = []
  columns.forEach((column, index) => {
    const isBlock = column.block !== null && !column.ball
    if (isBlock && columns[index - 1]?.missing === 'indicator' && columns[index - 1].block === column.block) {
      const { sigma, granularity } = columns[index - 1].noise
      const toMiddle = (0.5 * reach(columns[index - 1]) + granularity) / sigma
      mus.push(Math.max(mus.pop(), Math.hypot(toMiddle, reach(column) / column.noise.sigma)))
      return
    }
    const isResponse = column.noise.distribution === 'randomized-response'
    const mu = isResponse ? muOfResponse(column.noise) : reach(column) / column.noise.sigma
    const own = isBlock && !isResponse && column.missing !== 'indicator' ? Math.SQRT2 * mu : mu
    if (isBlock && index && columns[index - 1].block === column.block) mus.push(Math.max(mus.pop(), own))
    else mus.push(own)
  })
  return mus
}

function muOfResponse({ n_levels: levels, replaced }) {
  const other = replaced / levels
  return normalQuantile(1 - replaced + other) - normalQuantile(other)
}

// The mu of rows (G2): of a cell, of a row, or of an entity's rows together.
function muOf(unit, columns, rows = 1) {
  const mus = cellMus(unit, columns)
  const isWhole = !['cell', 'change'].includes(unit) || columns.some((column) => column.missing === 'center')
  return Math.sqrt(rows) * (isWhole && !columns[0].ball ? Math.hypot(...mus) : Math.max(...mus))
}

function checkRowsGuarantee(guarantee, columns) {
  const isPlain = guarantee.epsilon === null && (guarantee.excepted_delta === 0 || guarantee.discovery_mu > 0)
  require(isPlain && guarantee.neighbours === 'replace-one', 'G3', 'this is no guarantee of rows')
  const isFound = columns.some((column) => FOUND.includes(column.bounds_obtained))
  require(guarantee.bounds_mu > 0 === isFound, 'G2', 'the cost of bounds is not stated where there is one')
  const isCentered = columns.some((column) => column.missing === 'center')
  const isFilled = columns.every((column) => (column.fill !== null) === isCentered)
  require(guarantee.centers_mu > 0 === isCentered && isFilled, 'G2', 'the cost of centers is not stated')

  checkChanges(guarantee, columns)
  const own = muOf(guarantee.unit, columns, guarantee.max_rows ?? 1)
  const isContinuous = columns.every((column) => column.noise.distribution !== 'discrete-gaussian')
  const accountant = isContinuous ? 'gaussian-dp' : 'privacy-loss-distribution'
  const isStated = (guarantee.mu !== null) === isContinuous && guarantee.accountant === accountant
  require(isStated, 'G3', 'the accountant is not the one for these columns')
  const found = [guarantee.bounds_mu, guarantee.centers_mu, guarantee.discovery_mu]
  checkStrength(guarantee, Math.hypot(own, ...found), isContinuous)
}

function checkChanges(guarantee, columns) {
  const limited = columns.filter((column) => column.max_change !== null)
  require((guarantee.unit === 'change') === limited.length > 0, 'B5', 'changes are limited where they are no unit, or not')
  if (!limited.length) return
  const isDeclared = columns.every((column) => column.bounds_obtained === 'declared')
  const isWhole = limited.every((column) => column.missing === 'refuse')
  const isApart = columns.every((column) => column.missing !== 'center')
  require(isDeclared && isWhole && isApart, 'B5', 'columns whose changes are protected have gaps, or bounds that were found')
}

function checkWithoutGuarantee({ columns, conditional_mu: conditional }) {
  const isFree = columns.every(
    ({ bounds_obtained: obtained, missing, fill }) => !FOUND.includes(obtained) && missing !== 'center' && fill === null,
  )
  require(isFree, 'C5', 'a cost that no guarantee states')
  require(conditional === null || isAtLeast(conditional, muOf('cell', columns)), 'C5', 'the conditional mu is too small')
}

function checkPublic({ guarantee, columns, lineage, kind, format_version: version }) {
  const named = guarantee.public
  require(new Set(named).size === named.length, 'G6', 'something is public twice')
  const isReplaced = guarantee.neighbours === 'replace-one'
  if (kind === 'covariance') {
    require(named.includes('the number of the rows') === isReplaced, 'G6', 'the number of rows is public, or is not')
    const isOrdered = named.includes('the number and the order of the rows')
    require(isReplaced || !isOrdered, 'G6', 'the number of rows is public, and is not')
  }
  if (version === '1') return
  const due = [
    ['the number and the order of the rows', kind === 'rows'],
    ['which rows belong together', isReplaced && guarantee.entity !== null],
    ['that the rows are those of ', lineage.partition !== null],
    ['which rows have no value in ', isReplaced && columns.some((column) => column.missing === 'drop')],
  ]
  for (const [text, isDue] of due) {
    require(!isDue || named.some((each) => each.startsWith(text)), 'G6', `it is not named as public, ${text.trim()}`)
  }
}

function checkTotals(release) {
  const { guarantee, cumulative: total, lineage } = release
  const isFirst = lineage.number === 1
  require(!isFirst || (lineage.previous === null && total.releases === 1), 'T1', 'the first release is one of several')
  if (!guarantee) {
    const isEmpty = total.mu === null && total.rho === null && Object.keys(total.other_units_rho).length === 0
    require(isEmpty && /^(cell|row|change|entity:.*)$/.test(total.unit), 'T2', 'a total without a guarantee')
    return
  }
  const unit = guarantee.unit === 'entity' ? `entity:${guarantee.entity}` : guarantee.unit
  require(total.unit === unit, 'T2', 'the total is about another unit')
  const isMu = total.mu === null || (total.rho !== null && guarantee.mu !== null && isAtLeast(total.mu, guarantee.mu))
  const isRho = total.rho === null || isAtLeast(total.rho, guarantee.rho)
  const isDelta = isAtLeast(total.excepted_delta, guarantee.excepted_delta)
  require(isMu && isRho && isDelta, 'T3', "the total is less than the release's own")
  if (release.format_version !== '1') checkUnits(release, unit)
}

function checkUnits({ guarantee, columns, cumulative: total, kind }, unit) {
  const own = kind === 'rows' ? costOfRows(guarantee, columns, unit) : costOfMoments(guarantee, unit)
  const others = total.rho === null ? [] : Object.keys(own).filter((each) => each !== unit)
  const stated = Object.keys(total.other_units_rho)
  const isSame = stated.length === others.length && others.every((each) => stated.includes(each))
  require(isSame, 'T4', 'totals are not stated in all units')
  for (const [each, rho] of [[unit, total.rho], ...Object.entries(total.other_units_rho)]) {
    require(rho === null || isAtLeast(rho, own[each] ** 2 / 2), 'T4', `the total per ${each} is too small`)
  }
}

function costOfRows(guarantee, columns, unit) {
  const m = guarantee.max_rows ?? 1
  const k = columns.filter((column) => FOUND.includes(column.bounds_obtained)).length
  const moved = { row: Math.sqrt(k), [unit]: Math.sqrt(k) * m, cell: 1 }
  const noise = { [unit]: muOf(unit === 'change' ? unit : 'entity', columns, m), cell: muOf('cell', columns), row: muOf('row', columns) }
  const cost = (each) => {
    const search = k ? (guarantee.bounds_mu * moved[each]) / moved[unit] : 0
    const whole = Math.hypot(guarantee.centers_mu, guarantee.discovery_mu)
    return Math.hypot(noise[each], search, whole / (each === unit ? 1 : m))
  }
  return Object.fromEntries(Object.keys(noise).map((each) => [each, cost(each)]))
}

function costOfMoments(guarantee, unit) {
  const m = guarantee.max_rows ?? 1
  const steps = guarantee.neighbours === 'replace-one' ? 1 : 2
  const { epsilon, mu } = guarantee
  const row = epsilon === null ? (mu * Math.sqrt(steps)) / m : muImpliedBy((epsilon * steps) / m)
  const whole = epsilon === null ? mu * Math.sqrt(steps) : muImpliedBy(epsilon * steps)
  return { cell: row, row, [unit]: whole }
}
