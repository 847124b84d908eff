// The columns of a Parquet file, read by hyparquet (which needs `npm ci`; nothing else in this reader does).

import { bytesAt } from './archive.mjs'
import { checkParquet } from './parquet.mjs'
import { Refusal, require } from './refusal.mjs'

// Decompressors that refuse a page of another size than its header says.
function exact(compressors) {
  const wrap = (name, decompress) => (input, size) => {
    const content = decompress(input, size)
    const length = name === 'SNAPPY' ? snappyLength(input) : content.length
    require(length === size, 'D6', 'a page does not decompress to the size that it states')
    return content
  }
  return Object.fromEntries(Object.entries(compressors).map(([name, each]) => [name, wrap(name, each)]))
}

// The size that Snappy's own header states, in groups of seven bits.
function snappyLength(input) {
  const last = input.findIndex((byte) => byte < 128)
  return input.subarray(0, last + 1).reduceRight((length, byte) => length * 128 + (byte & 127), 0)
}

// The columns of a Parquet file of this shape.
export async function readTable(file, member, shape) {
  const { parquetRead } = await import('hyparquet')
  const { compressors } = await import('hyparquet-compressors')
  const bytes = bytesAt(file, member.offset, member.size)
  const found = []
  try {
    checkParquet(bytes, shape)
    const buffer = new Uint8Array(bytes).buffer
    await parquetRead({ file: buffer, compressors: exact(compressors), onComplete: (rows) => rows.forEach((row) => found.push(row)) })
  } catch (error) {
    if (error instanceof Refusal) throw new Refusal(`${error.message} (${member.name})`)
    throw new Refusal(`${shape.rule}: ${member.name} cannot be decoded: ${error.message}`)
  }
  return shape.names.map((_, index) => found.map((row) => row[index]))
}
