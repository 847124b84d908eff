// Rules P4 and P6: the fields of a payload, by the JSON Schema beside the format's page.

import fs from 'node:fs'
import { Integer, plain } from './json.mjs'
import { require } from './refusal.mjs'

const PAGE = new URL('../../docs/manifest-v8.schema.json', import.meta.url)
const SCHEMA = JSON.parse(fs.readFileSync(PAGE, 'utf8'))
const SINCE_3 = {
  Column: ['standards', 'standard_obtained'],
  SecondMoments: ['first_round', 'column_clip', 'fourth_moment'],
}
const SINCE_4 = { Column: ['block', 'max_change'], Release: ['sources'] }
const SINCE_6 = { Column: ['transform'] }
const SINCE_7 = { Release: ['discovery'], Guarantee: ['discovery_mu'] }
const SINCE_8 = { SecondMoments: ['margins'] }
const laterFields = (title, version) => [
  ...(version < '3' ? (SINCE_3[title] ?? []) : []),
  ...(version < '4' ? (SINCE_4[title] ?? []) : []),
  ...(version < '6' ? (SINCE_6[title] ?? []) : []),
  ...(version < '7' ? (SINCE_7[title] ?? []) : []),
  ...(version < '8' ? (SINCE_8[title] ?? []) : []),
]

// The document with plain numbers, objects and lists, after a check that it fits; defaults are filled in.
export function readFields(document, version) {
  return read(document, SCHEMA, version, 'the payload', 'Statement')
}

function read(value, schema, version, place, title) {
  if (schema.$ref) {
    const name = schema.$ref.split('/').pop()
    return read(value, SCHEMA.$defs[name], version, place, name)
  }
  if (schema.discriminator) {
    const kind = value instanceof Map && schema.discriminator.mapping[value.get(schema.discriminator.propertyName)]
    require(kind, 'P4', `${place} is not of its type`)
    return read(value, { $ref: kind }, version, place, title)
  }
  if (schema.anyOf) {
    const kind = schema.anyOf.find((each) => (each.type === 'null') === (value === null))
    require(kind, 'P4', `${place} is not of its type`)
    return read(value, kind, version, place, title)
  }
  if (schema.enum) require(schema.enum.includes(value), 'P4', `${place} is none of its words`)
  if ('const' in schema) require(schema.const === value, 'P4', `${place} is not ${schema.const}`)
  switch (schema.type) {
    case 'null':
      return null
    case 'boolean':
      require(typeof value === 'boolean', 'P4', `${place} is not true or false`)
      return value
    case 'string':
      return readText(value, schema, place)
    case 'integer':
      require(value instanceof Integer, 'P4', `${place} is not an integer`)
      return inRange(value.value, schema, place)
    case 'number':
      require(typeof value === 'number', 'P4', `${place} is not a float`)
      return inRange(value, schema, place)
    case 'array':
      return readList(value, schema, version, place)
    default:
      return readObject(value, schema, version, place, title)
  }
}

function readText(value, schema, place) {
  require(typeof value === 'string', 'P4', `${place} is not a text`)
  const length = [...value].length
  const fits = length >= (schema.minLength ?? 0) && length <= (schema.maxLength ?? Infinity)
  require(fits, 'P4', `${place} is too short or too long`)
  require(!schema.pattern || new RegExp(schema.pattern, 'u').test(value), 'P4', `${place} does not match its pattern`)
  return value
}

function inRange(value, schema, place) {
  const fits =
    !(value < schema.minimum) &&
    !(value > schema.maximum) &&
    !(value <= schema.exclusiveMinimum) &&
    !(value >= schema.exclusiveMaximum)
  require(fits, 'P4', `${place} is out of its range`)
  return Number(value)
}

function readList(value, schema, version, place) {
  require(Array.isArray(value), 'P4', `${place} is not a list`)
  const fits = value.length >= (schema.minItems ?? 0) && value.length <= (schema.maxItems ?? Infinity)
  require(fits, 'P4', `${place} has too few or too many entries`)
  return value.map((each, index) => read(each, schema.prefixItems?.[index] ?? schema.items, version, `${place}.${index}`))
}

function readObject(value, schema, version, place, title) {
  require(value instanceof Map, 'P4', `${place} is not an object`)
  const size = value.size
  require(size >= (schema.minProperties ?? 0) && size <= (schema.maxProperties ?? Infinity), 'P4', `${place} has too many`)
  const known = { ...schema.properties }
  for (const name of laterFields(title, version)) delete known[name]

  const found = Object.create(null)
  for (const [name, inner] of value) {
    const names = schema.propertyNames
    if (title === 'Dataset') require(new RegExp(names.pattern, 'u').test(name), 'P6', 'a field has no proper name')
    else if (names) read(name, { type: 'string', ...names }, version, `a name in ${place}`)
    if (Object.hasOwn(known, name)) found[name] = read(inner, known[name], version, `${place}.${name}`)
    else found[name] = readOther(name, inner, schema, version, place, title)
  }
  for (const [name, property] of Object.entries(known)) {
    if (name in found) continue
    const isOptional = version === '1' && !schema.required?.includes(name)
    require(isOptional, 'P4', `${place} lacks ${name}`)
    found[name] = property.default ?? (property.type === 'object' ? {} : null)
  }
  for (const name of laterFields(title, version)) found[name] ??= schema.properties[name].default
  return found
}

// An entry that no property names: of a table, or a further field of the dataset.
function readOther(name, value, schema, version, place, title) {
  if (typeof schema.additionalProperties === 'object') {
    return read(value, schema.additionalProperties, version, `${place}.${name}`)
  }
  require(schema.additionalProperties !== false, 'P4', `${place} has no field ${JSON.stringify(name)}`)
  require(title === 'Dataset' && version >= '3', 'P6', `${place} may have no further fields`)
  return readFurther(value)
}

function readFurther(value) {
  if (value instanceof Map) {
    for (const name of value.keys()) {
      require(name !== '' && [...name].length <= 1000, 'P6', 'a further field has a key of another length')
    }
    return Object.fromEntries([...value].map(([name, inner]) => [name, readFurther(inner)]))
  }
  if (Array.isArray(value)) return value.map(readFurther)
  if (typeof value === 'string') require([...value].length <= 10000, 'P6', 'a further field is too long')
  if (value instanceof Integer) {
    require(value.value <= 2n ** 53n && value.value >= -(2n ** 53n), 'P6', 'a further field is too large a number')
  }
  return plain(value)
}
