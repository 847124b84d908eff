// Rules P1, P2 and P5: JSON in one spelling. A parsed number keeps its kind, which JavaScript's own parser would lose.

import { Refusal, require } from './refusal.mjs'

const NUMBER = /-?[0-9][0-9.e+-]*/y
const TEXT = /"((?:[^"\\]|\\["\\])*)"/y
const FORBIDDEN = /[\0-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]|\p{Surrogate}/u

// A number that was written as an integer; floats are plain numbers.
export class Integer {
  constructor(value) {
    this.value = value
  }
}

// The value of a number of either kind, and the other values as they are.
export function plain(value) {
  return value instanceof Integer ? Number(value.value) : value
}

// The document that a payload spells.
export function parsePayload(payload) {
  require(payload.length <= 12582912, 'P1', 'the payload is too long')
  const marks = payload.reduce((n, byte) => n + (byte === 0x2c || byte === 0x5b || byte === 0x7b), 0)
  require(marks <= 700000, 'P1', 'the payload has too many entries')
  let text
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload)
  } catch (error) {
    throw new Refusal('P2: the payload is not UTF-8')
  }
  const state = { text, at: 0 }
  require(text[0] === '{', 'P1', 'the payload is no object')
  const document = parseValue(state, 1)
  require(state.at === text.length, 'P2', 'there is something behind the payload')
  return document
}

function parseValue(state, level) {
  const first = state.text[state.at]
  if (first === '{') return parseObject(state, level)
  if (first === '[') return parseList(state, level)
  if (first === '"') return parseText(state)
  for (const [word, value] of [['null', null], ['true', true], ['false', false]]) {
    if (state.text.startsWith(word, state.at)) {
      state.at += word.length
      return value
    }
  }
  return parseNumber(state)
}

function parseObject(state, level) {
  require(level <= 8, 'P1', 'objects are nested too deeply')
  const entries = new Map()
  let last = null
  state.at += 1
  if (skip(state, '}')) return entries
  do {
    const key = parseText(state)
    require(last === null || byCodePoint(last, key) < 0, 'P2', 'keys are not sorted, or one occurs twice')
    require(skip(state, ':'), 'P2', 'a key has no value')
    entries.set(key, parseValue(state, level + 1))
    last = key
  } while (skip(state, ','))
  require(skip(state, '}'), 'P2', 'an object has no end')
  require(entries.size <= 64, 'P1', 'an object has too many entries')
  return entries
}

function parseList(state, level) {
  require(level <= 8, 'P1', 'lists are nested too deeply')
  const items = []
  state.at += 1
  if (skip(state, ']')) return items
  do items.push(parseValue(state, level + 1))
  while (skip(state, ','))
  require(skip(state, ']'), 'P2', 'a list has no end')
  require(items.length <= 65535, 'P1', 'a list has too many entries')
  return items
}

function parseText(state) {
  const found = match(TEXT, state)
  require(found, 'P2', 'a text is not in its one spelling')
  const text = found[1].replace(/\\(["\\])/g, '$1')
  require(!FORBIDDEN.test(text), 'P5', 'a text holds a control character')
  return text
}

function parseNumber(state) {
  const found = match(NUMBER, state)
  require(found, 'P2', 'there is something that is no JSON')
  const token = found[0]
  if (/^(0|-?[1-9][0-9]*)$/.test(token)) return new Integer(BigInt(token))
  const value = Number(token)
  require(Number.isFinite(value) && spellFloat(value) === token, 'P2', `${token} is not in its one spelling`)
  return value
}

// The one spelling of a float64.
export function spellFloat(value) {
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0'
  const [, sign, first, rest, power] = /^(-?)(\d)\.?(\d*)e([+-]\d+)$/.exec(value.toExponential())
  const e = Number(power)
  const digits = first + rest
  if (e < -4 || e >= 16) {
    const size = String(Math.abs(e)).padStart(2, '0')
    return `${sign}${first}${rest && '.'}${rest}e${e < 0 ? '-' : '+'}${size}`
  }
  if (e < 0) return `${sign}0.${'0'.repeat(-e - 1)}${digits}`
  const whole = digits.slice(0, e + 1).padEnd(e + 1, '0')
  return `${sign}${whole}.${digits.slice(e + 1) || '0'}`
}

function byCodePoint(one, other) {
  return Buffer.compare(Buffer.from(one), Buffer.from(other)) // UTF-8 keeps the order of code points
}

function skip(state, character) {
  if (state.text[state.at] !== character) return false
  state.at += 1
  return true
}

function match(pattern, state) {
  pattern.lastIndex = state.at
  const found = pattern.exec(state.text)
  if (found) state.at = pattern.lastIndex
  return found
}
