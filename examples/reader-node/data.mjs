// Rules D1 to D3: the numbers, read by hyparquet (which needs `npm ci`; nothing else in this reader does).
//
// D4 to D8, on the files' own headers, are left out: read only the data of signers whom you trust.

import { bytesAt } from './archive.mjs'
import { require } from './refusal.mjs'

const TYPES = { continuous: 'DOUBLE', integer: 'INT64', text: 'BYTE_ARRAY' }

// All numbers of a release: the columns of its rows, or its matrices by their members' names.
export async function readData(file, members, release) {
  const data = members.filter((member) => member.name.startsWith('data/'))
  if (release.kind === 'rows') return readRows(file, data, release)
  const matrices = {}
  for (const member of data) matrices[member.name] = await readMatrix(file, member, release)
  return matrices
}

async function readRows(file, parts, { columns, n_rows: rows }) {
  const found = columns.map(() => [])
  const names = columns.map((column) => column.name)
  const kinds = columns.map((column) => column.kind)
  for (const part of parts) {
    const read = await readTable(file, part, names, kinds, groupRows(columns.length))
    read.forEach((values, index) => found[index].push(values))
  }
  const flat = found.map((chunks) => chunks.flat())
  require(flat.every((values) => values.length === rows), 'D1', 'there are not as many rows as the manifest promises')
  flat.forEach((values, index) => {
    const isNumber = kinds[index] === 'integer' ? (each) => typeof each === 'bigint' : Number.isFinite
    require(values.every(isNumber), 'D1', `${names[index]} holds a value that is no number`)
  })
  return flat
}

function groupRows(n) {
  const batch = Math.min(262144, Math.max(8192, Math.floor(1048576 / n)))
  return Math.min(batch, Math.max(512, Math.floor(4194304 / n)))
}

async function readMatrix(file, member, release) {
  const moments = release.second_moments
  const isTransform = member.name === 'data/transform.parquet'
  const described = member.name === 'data/first-round.parquet' ? moments.first_round : moments
  const labels = release.columns.map((column) => column.name)
  if (!isTransform && described.constant) labels.push('(constant)')

  const table = await readTable(file, member, ['row', 'column', 'value'], ['text', 'text', 'continuous'], 2 ** 20)
  const [rows, columns, values] = table
  const d = labels.length
  require(values.length === (d * (d + 1)) / 2, 'D2', `${member.name} is not a whole triangle`)
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

function checkEntries(name, matrix, { constant: c, granularity: g, bias }, release) {
  const last = matrix.length - 1
  const isCounted = c > 0 && release.guarantee.neighbours === 'replace-one'
  const isOnGrid = (value, i, j) => g === null || (isCounted && i === last && j === last) || Number.isInteger(value / g)
  const isSound = matrix.every((row, i) => row.every((value, j) => isOnGrid(value, i, j)))
  require(isSound, 'D2', `${name} holds a value that is no multiple of ${g}`)
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

// The columns of a Parquet file of these names and kinds, with this number of rows in a full row group.
async function readTable(file, member, names, kinds, groupSize) {
  const { parquetMetadata, parquetRead } = await import('hyparquet')
  const { compressors } = await import('hyparquet-compressors')
  const buffer = new Uint8Array(bytesAt(file, member.offset, member.size)).buffer
  try {
    const metadata = parquetMetadata(buffer)
    const isSame = metadata.schema.length === names.length + 1 && metadata.schema.slice(1).every(
      ({ name, type, repetition_type: repetition }, index) =>
        name === names[index] && type === TYPES[kinds[index]] && repetition === 'REQUIRED',
    )
    require(isSame, 'D1', `${member.name} has other columns than the manifest describes`)
    const sizes = metadata.row_groups.map((group) => Number(group.num_rows))
    const isFull = sizes.every((size, index) => size === groupSize || (index === sizes.length - 1 && size < groupSize))
    require(isFull, 'D7', `${member.name} has row groups of another size`)

    const found = []
    await parquetRead({ file: buffer, metadata, compressors, onComplete: (rows) => found.push(...rows) })
    return names.map((_, index) => found.map((row) => row[index]))
  } catch (error) {
    require(error.rule !== undefined || /^[A-Z]\d: /.test(error.message), 'D1', `${member.name} is no Parquet: ${error.message}`)
    throw error
  }
}
