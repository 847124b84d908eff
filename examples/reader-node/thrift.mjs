// Rule D4: structs in Thrift's compact protocol, of which only the fields of a form may occur.
//
// A form has the fields that may be there by their numbers, and the required ones. A kind of field is `I16`, `I32`, `I64`,
// `BOOL` or `TEXT`, `list(kind, least, most)`, or a form.

import { require } from './refusal.mjs'

export const [I16, I32, I64] = [4, 5, 6].map((wire) => ({ wire, most: 2n ** BigInt(2 ** wire - 1) - 1n }))
export const BOOL = { wire: 2 }
export const TEXT = { wire: 8 }
export const list = (kind, least, most) => ({ wire: 9, kind, least, most })
export const form = (fields, required = []) => ({ wire: 12, fields, required })
export const EMPTY = form({})

// The struct at a position, and the position behind it.
export function readStruct(bytes, position, kind) {
  const state = { bytes, at: position }
  return [read(state, kind), state.at]
}

function read(state, kind) {
  switch (kind.wire) {
    case 8:
      return readText(state, kind)
    case 9:
      return readList(state, kind)
    case 12:
      return readFields(state, kind)
    default:
      return readNumber(state, kind)
  }
}

function readFields(state, { fields, required }) {
  const found = {}
  let number = 0
  for (let head = next(state); head; head = next(state)) {
    require(head >= 16, 'D4', 'a field has the long form of its number')
    number += head >> 4
    const kind = fields[number]
    const wire = head & 15
    require(kind, 'D4', `there is a field ${number} that no release has`)
    if (kind === BOOL) {
      require(wire === 1 || wire === 2, 'D4', `field ${number} is of another type`)
      found[number] = wire === 1
    } else {
      require(wire === kind.wire, 'D4', `field ${number} is of another type`)
      found[number] = read(state, kind)
    }
  }
  require(required.every((each) => each in found), 'D4', 'a field is missing')
  return found
}

function readList(state, { kind, least, most }) {
  const head = next(state)
  const size = head >> 4 === 15 ? Number(varint(state)) : head >> 4
  require((head & 15) === kind.wire && size >= least && size <= most, 'D4', 'a list that no release has')
  return Array.from({ length: size }, () => read(state, kind))
}

function readText(state, { most = Infinity }) {
  const size = Number(varint(state))
  require(size <= most && state.at + size <= state.bytes.length, 'D4', 'a text is too long, or cut off')
  state.at += size
  return state.bytes.subarray(state.at - size, state.at).toString('utf8')
}

function readNumber(state, { most }) {
  const value = varint(state)
  require(value % 2n === 0n && value / 2n <= most, 'D4', 'a number is negative or too large')
  return Number(value / 2n)
}

function varint(state) {
  let value = 0n
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = next(state)
    value |= BigInt(byte & 127) << shift
    if (byte < 128) {
      require(byte !== 0 || shift === 0n, 'D4', 'a number is not in its shortest form')
      return value
    }
  }
  return require(false, 'D4', 'a number is too long')
}

function next(state) {
  require(state.at < state.bytes.length, 'D4', 'a struct is cut off')
  return state.bytes[state.at++]
}
