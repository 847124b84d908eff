// Rules A: the one form of the tar. Members are windows into the open file; nothing is extracted.

import fs from 'node:fs'
import { require } from './refusal.mjs'

const BLOCK = 512
const RECORD = 10240
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*(\/[A-Za-z0-9][A-Za-z0-9._-]*)?$/

// The bytes of a file from a position on: fewer only where the file ends.
export function bytesAt(file, position, size) {
  const content = Buffer.alloc(size)
  let read = 0
  while (read < size) {
    const more = fs.readSync(file, content, read, size - read, position + read)
    if (!more) break
    read += more
  }
  return content.subarray(0, read)
}

// The member whose header is at this position: its name, the offset of its content, and its size.
export function memberAt(file, position) {
  const header = bytesAt(file, position, BLOCK)
  require(header.length === BLOCK, 'A1', 'the file ends where a header should be')
  const name = header.subarray(0, 100).toString('latin1').replace(/\0+$/, '')
  require(NAME.test(name), 'A3', 'a member has no proper name')
  const digits = header.subarray(124, 135).toString('latin1')
  require(/^[0-7]{11}$/.test(digits), 'A4', 'a header has no proper size')
  require(header.equals(headerOf(name, digits)), 'A4', `the header of ${name} is not the one that it must be`)

  const size = parseInt(digits, 8)
  const offset = position + BLOCK
  const padding = (BLOCK - (size % BLOCK)) % BLOCK
  require(offset + size + padding <= fs.fstatSync(file).size, 'A1', `the file ends inside ${name}`)
  require(isZero(bytesAt(file, offset + size, padding)), 'A1', `there are stray bytes behind ${name}`)
  return { name, offset, size, next: offset + size + padding }
}

// All members in order, of which there may be so many, after a check of the archive's end.
export function scanArchive(file, most) {
  const members = []
  const names = new Set()
  let position = 0
  for (;;) {
    const block = bytesAt(file, position, BLOCK)
    if (block.length === BLOCK && isZero(block)) break
    const member = memberAt(file, position)
    require(!names.has(member.name), 'A3', `${member.name} occurs twice`)
    require(members.length < most, 'M2', 'there are more members than were signed')
    names.add(member.name)
    members.push(member)
    position = member.next
  }
  const end = Math.ceil((position + 2 * BLOCK) / RECORD) * RECORD
  const trailer = bytesAt(file, position, end - position)
  const size = fs.fstatSync(file).size
  require(size === end && isZero(trailer), 'A2', 'the file does not end where it should')
  return members
}

function headerOf(name, digits) {
  const header = Buffer.alloc(BLOCK)
  const numbers = `0000644\0${'0000000\0'.repeat(2)}${digits}\0${'0'.repeat(11)}\0`
  header.write(name, 0, 'latin1')
  header.write(numbers, 100, 'latin1')
  header.write(' '.repeat(8), 148, 'latin1')
  header.write('0', 156, 'latin1')
  header.write('ustar\x0000', 257, 'latin1')
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}

function isZero(bytes) {
  return bytes.every((byte) => byte === 0)
}
