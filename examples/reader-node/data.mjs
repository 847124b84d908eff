// Rules D1 to D3: the numbers of rows and of matrices.

import { MARGINS, readMargins } from './margins.mjs'
import { require } from './refusal.mjs'
import { readTable } from './table.mjs'

// All numbers of a release: the columns of its rows, or its matrices and its histograms by their members' names.
export async function readData(file, members, release) {
  const data = members.filter((member) => member.name.startsWith('data/'))
  if (release.kind === 'rows') return readRows(file, data, release)
  const found = {}
  for (const member of data) {
    const read = member.name === MARGINS ? readMargins : readMatrix
    found[member.name] = await read(file, member, release)
  }
  return found
}

async function readRows(file, parts, { columns, n_rows: rows, format_version: version }) {
  const isOld = version === '1'
  const found = columns.map(() => [])
  const names = columns.map((column) => column.name)
  const kinds = columns.map((column) => column.kind)
  for (const part of parts) {
    const shape = { names, kinds, rows, groupRows: groupRows(columns.length, isOld), labels: [], rule: 'D1', isOld }
    const read = await readTable(file, part, shape)
    read.forEach((values, index) => found[index].push(values))
  }
  const flat = found.map((chunks) => chunks.flat())
  require(flat.every((values) => values.length === rows), 'D1', 'there are not as many rows as the manifest promises')
  flat.forEach((values, index) => {
    const isNumber = kinds[index] === 'integer' ? (each) => typeof each === 'bigint' : Number.isFinite
    require(values.every(isNumber), 'D1', `${names[index]} holds a value that is no number`)
  })
  checkLevels(columns, flat)
  return flat
}

function checkLevels(columns, flat) {
  const cells = new Map()
  columns.forEach((column, index) => {
    if (column.noise?.distribution !== 'randomized-response') return
    const name = column.block ?? column.name
    cells.set(name, [...(cells.get(name) ?? []), flat[index]])
  })
  for (const [name, drawn] of cells) {
    const areIndicators = drawn.every((values) => values.every((each) => each === 0n || each === 1n))
    const isOne = (_, row) => drawn.length === 1 || drawn.reduce((sum, values) => sum + values[row], 0n) === 1n
    require(areIndicators && drawn[0].every(isOne), 'D1', `${name} has a row of no level, or of several`)
  }
}

function groupRows(n, isOld) {
  const batch = Math.min(262144, Math.max(8192, Math.floor(1048576 / n)))
  return isOld ? batch : Math.min(batch, Math.max(512, Math.floor(4194304 / n)))
}

async function readMatrix(file, member, release) {
  const moments = release.second_moments
  const isTransform = member.name === 'data/transform.parquet'
  const described = member.name === 'data/first-round.parquet' ? moments.first_round : moments
  const labels = release.columns.map((column) => column.name)
  if (!isTransform && described.constant) labels.push('(constant)')

  const d = labels.length
  const n = (d * (d + 1)) / 2
  require(n <= member.size + 65536, 'D8', `${member.name} has too few bytes for a matrix with noise`)
  const [names, kinds] = [['row', 'column', 'value'], ['text', 'text', 'continuous']]
  const isOld = release.format_version === '1'
  const shape = { names, kinds, rows: n, groupRows: 2 ** 20, labels, rule: 'D2', isOld }
  const [rows, columns, values] = await readTable(file, member, shape)
  require(values.length === n, 'D2', `${member.name} is not a whole triangle`)
  const matrix = labels.map(() => new Array(d).fill(0))
  let at = 0
  for (let i = 0; i < d; i++) {
    for (let j = i; j < d; j++, at++) {
      require(rows[at] === labels[i] && columns[at] === labels[j], 'D2', `${member.name} is not in order`)
      matrix[i][j] = matrix[j][i] = values[at]
    }
  }
  require(values.every(Number.isFinite), 'D2', `${member.name} holds a value that is no number`)
  if (isTransform) checkTransform(matrix)
  else checkEntries(member.name, matrix, described, release)
  return matrix
}

function checkSize(name, matrix, { constant: c, radius, bias, ...noise }, rows, isCounted) {
  let most = 1e70
  if (c && noise.diagonal_variance !== null) {
    const m = bias + 1000 * Math.sqrt(Math.max(noise.diagonal_variance, noise.off_diagonal_variance))
    most = Math.min(most, (rows + (isCounted ? 0 : m / c ** 2)) * radius ** 2 + m)
  }
  const isPossible = matrix.every((row) => row.every((value) => Math.abs(value) <= most))
  require(isPossible, 'D2', `${name} holds a value that its noise and rows cannot give`)
}

function checkEntries(name, matrix, described, release) {
  const { constant: c, granularity: g, bias } = described
  const last = matrix.length - 1
  const isCounted = c > 0 && release.guarantee.neighbours === 'replace-one'
  const isOnGrid = (value, i, j) => g === null || (isCounted && i === last && j === last) || Number.isInteger(value / g)
  const isSound = matrix.every((row, i) => row.every((value, j) => isOnGrid(value, i, j)))
  require(isSound, 'D2', `${name} holds a value that is no multiple of ${g}`)
  checkSize(name, matrix, described, release.n_rows, isCounted)
  if (!c) return
  const corner = matrix[last][last]
  const estimate = Math.min(Math.max((corner - bias) / c ** 2, 1), 2 ** 53)
  const fits = isCounted ? corner === release.n_rows * c ** 2 : Math.abs(release.n_rows - estimate) <= 0.5
  require(fits, 'D2', `${name} is about another number of rows`)
}

// D3 by a Cholesky factorisation.
function checkTransform(matrix) {
  const entries = matrix.flat()
  require(entries.every((each) => Math.abs(each) <= 1e8), 'D3', 'an entry of the transform is too large')
  require(matrix.every((row, i) => row[i] >= 1e-8), 'D3', 'an entry on the diagonal of the transform is too small')
  const shift = 1e-8 * Math.hypot(...entries)
  const factor = matrix.map((row) => row.map(() => 0))
  for (let i = 0; i < matrix.length; i++) {
    for (let j = 0; j <= i; j++) {
      let rest = matrix[i][j] - (i === j ? shift : 0)
      for (let k = 0; k < j; k++) rest -= factor[i][k] * factor[j][k]
      require(i !== j || rest > 0, 'D3', 'the transform cannot be inverted safely')
      factor[i][j] = i === j ? Math.sqrt(rest) : rest / factor[j][j]
    }
  }
}
