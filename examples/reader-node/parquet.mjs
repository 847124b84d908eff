// Rules D4 to D8: the headers of a Parquet file, which are checked before any library sees it.

import { require } from './refusal.mjs'
import { BOOL, EMPTY, I16, I32, I64, TEXT, form, list, readStruct } from './thrift.mjs'

const TYPES = { continuous: 5, integer: 2, text: 6 }
const [PLAIN, RLE, DICTIONARY, SPLIT] = [0, 3, 8, 9]
const LONGEST_HEADER = 128

// `shape` has `names` and `kinds` of columns, `rows` (the most that there may be), `groupRows`, the texts that may occur as
// `labels`, the `rule` that other rows break, and `isOld` for format version 1, which has statistics.
export function checkParquet(bytes, shape) {
  const size = bytes.length
  const isParquet = size >= 12 && marked(bytes.subarray(0, 4)) && marked(bytes.subarray(size - 4))
  require(isParquet, 'D5', 'it is no Parquet')
  const length = bytes.readUInt32LE(size - 8)
  const most = mostGroups(shape, size)
  require(length <= Math.min(largestFooter(shape, most), size - 12), 'D8', 'the footer is too large')
  const end = size - 8 - length
  const [footer, behind] = readStruct(bytes.subarray(end, size - 8), 0, fileForm(shape))
  require(behind === length, 'D5', 'there are stray bytes in the footer')

  require(footer[1] === 2, 'D4', 'it is of another version')
  const isOurs = /^parquet-cpp-arrow version [0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(-SNAPSHOT)?$/.test(footer[6])
  require(isOurs, 'D4', 'it is by another writer')
  checkSchema(footer[2], shape)
  checkRows(footer, shape, size, most)
  let position = 4
  footer[4].forEach((group, index) => {
    position = checkGroup(bytes, group, index, position, shape)
  })
  require(position === end, 'D5', 'there are bytes that belong to no column')
}

const marked = (bytes) => bytes.toString('latin1') === 'PAR1'
const byteLength = (text) => Buffer.byteLength(text)
const total = (numbers) => numbers.reduce((sum, each) => sum + each, 0)

function mostGroups({ names, rows, groupRows }, size) {
  return Math.max(1, Math.ceil(Math.min(rows, Math.floor((64 * size) / names.length)) / groupRows))
}

function largestFooter({ names, labels, isOld }, groups) {
  const texts = total(names.map(byteLength))
  const statistics = isOld ? 2 * Math.max(0, ...labels.map(byteLength)) : 0
  return 256 + 64 * names.length + texts + groups * (64 + texts + names.length * (256 + statistics))
}

function statisticsForm({ isOld, labels }) {
  const value = { ...TEXT, most: Math.max(8, ...labels.map(byteLength)) }
  return isOld ? form({ 1: value, 2: value, 3: I64, 4: I64, 5: value, 6: value, 7: BOOL, 8: BOOL }) : EMPTY
}

function fileForm(shape) {
  const { names } = shape
  const n = names.length
  const element = form({ 1: I32, 3: I32, 4: TEXT, 5: I32, 6: I32, 10: form({ 1: EMPTY }) })
  const count = form({ 1: I32, 2: I32, 3: I32 }, [1, 2, 3])
  const sizes = form({ 1: I64, 2: list(I64, 0, 0), 3: list(I64, 0, 0) }, [1])
  const fields = { 1: I32, 2: list(I32, 1, 5), 3: list(TEXT, 1, 1), 4: I32, 5: I64, 6: I64, 7: I64, 9: I64, 11: I64 }
  const more = { 12: statisticsForm(shape), 13: list(count, 1, 5), 16: sizes }
  const described = form({ ...fields, ...more }, [1, 2, 3, 4, 5, 6, 7, 9])
  const chunk = form({ 2: I64, 3: described }, [3])
  const group = form({ 1: list(chunk, n, n), 2: I64, 3: I64, 5: I64, 6: I64, 7: I16 }, [1, 2, 3, 5, 6])
  const orders = list(form({ 1: EMPTY }, [1]), n, n)
  const file = { 1: I32, 2: list(element, n + 1, n + 1), 3: I64, 4: list(group, 1, Infinity), 6: TEXT, 7: orders }
  return form(file, [1, 2, 3, 4, 6, 7])
}

function checkSchema(elements, { names, kinds, rule }) {
  const expected = names.map((name, index) => {
    const text = kinds[index] === 'text' ? { 6: 0, 10: { 1: {} } } : {}
    return { 1: TYPES[kinds[index]], 3: 0, 4: name, ...text }
  })
  const root = { 3: 0, 4: 'schema', 5: names.length }
  const isSame = JSON.stringify(elements) === JSON.stringify([root, ...expected])
  require(isSame, rule, 'its columns are not those that the manifest describes')
}

function checkRows(footer, { names, rows, groupRows, rule }, size, most) {
  const counts = footer[4].map((group) => group[3])
  require(footer[3] <= rows, rule, 'it has more rows than the manifest promises')
  require(footer[3] * names.length <= 64 * size, 'D8', 'it has too many values for its size')
  const isFull = counts.every((n, at) => n > 0 && n <= groupRows && (n === groupRows || at === counts.length - 1))
  require(isFull && counts.length <= most, 'D7', 'a row group has another size')
  require(total(counts) === footer[3], 'D4', 'the number of rows is not that of the groups')
}

// One row group, which begins at a position; the result is where it ends.
function checkGroup(bytes, group, index, start, shape) {
  const chunks = group[1].map((chunk) => chunk[3])
  const said = [group[5], group[6], group[2], group[7] ?? index]
  const sums = [start, total(chunks.map((each) => each[7])), total(chunks.map((each) => each[6])), index]
  require(said.every((each, at) => each === sums[at]), 'D4', 'a row group is not the sum of its columns')
  let position = start
  chunks.forEach((chunk, column) => {
    const kind = shape.kinds[column]
    require(chunk[3][0] === shape.names[column] && chunk[1] === TYPES[kind], 'D4', 'a chunk is of another column')
    require([0, 1, 6].includes(chunk[4]) && !(16 in chunk && kind !== 'text'), 'D4', 'a chunk has another codec')
    const isHere = (chunk[11] ?? chunk[9]) === position && chunk[5] === group[3]
    require(isHere, 'D5', 'chunks do not lie end to end, or hold other values than their group')
    checkPages(bytes, chunk, kind, shape)
    position += chunk[7]
  })
  return position
}

function checkPages(bytes, chunk, kind, shape) {
  const { labels, isOld } = shape
  const dictionary = form({ 1: I32, 2: I32, 3: BOOL }, [1, 2])
  const values = form({ 1: I32, 2: I32, 3: I32, 4: I32, 5: statisticsForm(shape) }, [1, 2, 3, 4])
  const header = form({ 1: I32, 2: I32, 3: I32, 5: values, 7: dictionary }, [1, 2, 3])
  const statistics = isOld ? 2 * Math.max(0, ...labels.map(byteLength)) : 0
  const start = chunk[11] ?? chunk[9]
  const end = start + chunk[7]
  require(end <= bytes.length, 'D5', 'a chunk leads beyond the file')
  const counts = new Map()
  let [position, n, size, pages] = [start, 0, 0, 0]
  while (position < end) {
    require(pages < Math.floor(chunk[5] / 8192) + 3, 'D6', 'a chunk has too many pages')
    const window = bytes.subarray(position, position + LONGEST_HEADER + statistics)
    const [page, length] = readStruct(window, 0, header)
    const own = { 0: page[5], 2: page[7] }[page[1]]
    require(own && !(5 in page && 7 in page), 'D4', 'a page is of another kind')
    const [isDictionary, next] = [page[1] === 2, position + length + page[3]]
    if (isDictionary) {
      const isFirst = position === start && next === chunk[9]
      require(isFirst && isDictionarySound(own, page[2], chunk, kind, labels), 'D6', 'a dictionary is not sound')
    } else {
      require(own[3] === RLE && own[4] === RLE, 'D4', 'levels are encoded otherwise')
      require(position >= chunk[9] && isDataSound(own, page[2], chunk, kind), 'D6', 'a page is larger than its values')
      n += own[1]
    }
    const largest = chunk[4] ? page[2] + Math.floor(page[2] / 6) + 64 : page[2]
    require(page[3] > 0 && page[3] <= largest && n <= chunk[5], 'D6', 'a page is larger than its values need')
    const key = `${page[1]} ${own[2]}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
    size += length + page[2]
    position = next
    pages += 1
  }
  require(position === end && n === chunk[5] && size === chunk[6], 'D5', 'pages do not hold the values of the chunk')
  checkCounts(chunk, counts)
}

function checkCounts(chunk, counts) {
  const used = new Set([RLE, ...[...counts.keys()].map((key) => Number(key.split(' ')[1]))])
  const stated = new Set(chunk[2])
  require(used.size === stated.size && [...used].every((each) => stated.has(each)), 'D4', 'other encodings are stated')
  if (!(13 in chunk)) return
  const said = new Map(chunk[13].map((each) => [`${each[1]} ${each[2]}`, each[3]]))
  const isSame = said.size === counts.size && [...counts].every(([key, count]) => said.get(key) === count)
  require(isSame, 'D4', 'other pages are stated')
}

function isDictionarySound(own, size, chunk, kind, labels) {
  if (own[2] !== PLAIN) return false
  if (kind !== 'text') return own[1] <= chunk[5] && size === 8 * own[1]
  return own[1] <= labels.length && size <= total(labels.map((label) => 4 + byteLength(label)))
}

function isDataSound(own, size, chunk, kind) {
  if (own[2] === DICTIONARY) return 11 in chunk && chunk[11] !== chunk[9] && size > 0 && size <= 8 * own[1] + 64
  return kind !== 'text' && [PLAIN, SPLIT].includes(own[2]) && size > 0 && size === 8 * own[1]
}
