// A reader of bundles, written from docs/bundle-format.md alone.
//
//     node read.mjs wine.bundle.tar publisher.pub          (or the publisher's fingerprint, ed25519:...)
//
// It prints who signed it, what is promised, each column's noise variance, and the first rows, or the histograms and the
// first rows of the matrix; or one line that begins
// with "refused:" and the number of the broken rule, and exits with 3. It does not check M5 (the words of the README and
// the descriptions), G5 (the curve of integer columns) and R (releases seen before).
//
//     node read.mjs --batch                                reads lines "FILE KEY", answers each with "accepted" or "refused: ..."

import crypto from 'node:crypto'
import fs from 'node:fs'
import readline from 'node:readline'
import { pathToFileURL } from 'node:url'
import { bytesAt, memberAt, scanArchive } from './archive.mjs'
import { readData } from './data.mjs'
import { ENVELOPE_END, fingerprintOf, openEnvelope, signerOf } from './envelope.mjs'
import { parsePayload } from './json.mjs'
import { MARGINS, scoresOf, sharesOf } from './margins.mjs'
import { checkRelease } from './release.mjs'
import { Refusal, require } from './refusal.mjs'
import { readFields } from './schema.mjs'

const MANIFEST = 'manifest.dsse.json'
const DESCRIPTIONS = ['README.md', 'datapackage.json', 'croissant.json']

// The statement and the numbers of a bundle by this signer.
export async function readBundle(path, trusted) {
  const file = fs.openSync(path, 'r')
  try {
    const first = memberAt(file, 0)
    require(first.name === MANIFEST && first.size <= 16778240, 'M1', 'the file does not begin with a manifest')
    const { key } = signerOf(bytesAt(file, Math.max(first.offset, first.offset + first.size - ENVELOPE_END), ENVELOPE_END))
    require(`ed25519:${key}` === trusted, 'E2', `it is signed by ed25519:${key}, whom you do not trust`)
    const payload = openEnvelope(bytesAt(file, first.offset, first.size))
    const statement = readStatement(payload)

    const members = scanArchive(file, 1 + statement.subject.length)
    checkMembers(file, members, statement)
    return { statement, data: await readData(file, members, statement.predicate) }
  } finally {
    fs.closeSync(file)
  }
}

export function readStatement(payload) {
  const document = parsePayload(payload)
  const predicate = document.get('predicate')
  const version = predicate instanceof Map ? predicate.get('format_version') : undefined
  require(['1', '2', '3', '4', '5', '6', '7', '8'].includes(version), 'P3', 'a newer version of this reader is needed')
  require(document.get('predicateType') === `dpgraph:release/v${version}`, 'P3', 'the type is not that of the version')
  const statement = readFields(document, version)
  checkRelease(statement.predicate)
  return statement
}

function checkMembers(file, members, { subject, predicate }) {
  const names = subject.map((each) => each.name)
  const isSigned = members.length === names.length + 1 && names.every((name, index) => name === members[index + 1].name)
  require(isSigned, 'M2', 'the members are not those that were signed')
  const expected = [...DESCRIPTIONS, ...dataNames(predicate, Math.max(1, names.length - DESCRIPTIONS.length))]
  const isKind = expected.length === names.length && expected.every((name, index) => name === names[index])
  require(isKind, 'M3', 'the members are not those of such a release')
  members.slice(1).forEach((member, index) => {
    const isSame = digestOf(file, member) === subject[index].digest.sha256
    require(isSame, 'M4', `${member.name} is not as it was signed`)
  })
}

function dataNames({ kind, second_moments: moments }, parts) {
  if (kind === 'rows') return Array.from({ length: parts }, (_, n) => `data/part-${String(n).padStart(5, '0')}.parquet`)
  const later = moments.first_round ? ['data/first-round.parquet', 'data/transform.parquet'] : []
  return ['data/covariance.parquet', ...later, ...(moments.margins ? [MARGINS] : [])]
}

function digestOf(file, { offset, size }) {
  const hash = crypto.createHash('sha256')
  for (let at = 0; at < size; at += 2 ** 20) hash.update(bytesAt(file, offset + at, Math.min(2 ** 20, size - at)))
  return hash.digest('hex')
}

function describe({ statement, data }, signer) {
  const { dataset, lineage, columns, guarantee, kind, second_moments: moments } = statement.predicate
  const lines = [`release ${lineage.number} of ${JSON.stringify(dataset.name)}, signed by ${signer}`]
  lines.push(`guarantee: ${JSON.stringify(guarantee)}`)
  if (kind === 'rows') {
    for (const { name, noise } of columns) {
      const said = noise.replaced ? `levels replaced with probability ${noise.replaced}` : `noise variance ${noise.variance}`
      lines.push(`${JSON.stringify(name)}: ${said}`)
    }
    const shown = Math.min(5, data[0].length)
    for (let row = 0; row < shown; row++) lines.push(data.map((values) => String(values[row])).join('\t'))
  } else {
    for (const { name, transform } of columns.filter((column) => column.transform)) {
      const scaled = `asinh((x - ${transform.center}) / ${transform.scale}) of its values x`
      lines.push(`${JSON.stringify(name)}: ${transform.name === 'asinh' ? scaled : 'normal scores of its cells'}`)
    }
    for (const margin of data[MARGINS] ?? []) {
      const shares = sharesOf(margin, statement.predicate.n_rows, moments.margins.sigma)
      const scores = margin.hasEnds ? scoresOf(margin, shares, statement.predicate.n_rows) : null
      const { name, edges, counts } = margin
      lines.push(`histogram: ${JSON.stringify({ name, edges, counts, shares, scores })}`)
    }
    lines.push(`noise variance ${moments.diagonal_variance} on the diagonal, ${moments.off_diagonal_variance} beside it`)
    for (const row of data['data/covariance.parquet'].slice(0, 5)) lines.push(row.join('\t'))
  }
  return lines.join('\n')
}

function refusal(error) {
  if (error instanceof Refusal || error.code) return `refused: ${error.message}`
  throw error
}

async function main(words) {
  if (words[0] === '--batch') {
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const [path, key] = line.split('\t')
      console.log(await readBundle(path, key).then(() => 'accepted', refusal))
    }
    return
  }
  try {
    const [path, key] = words
    const signer = key.startsWith('ed25519:') ? key : fingerprintOf(fs.readFileSync(key))
    console.log(describe(await readBundle(path, signer), signer))
  } catch (error) {
    console.error(refusal(error))
    process.exitCode = 3
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv.slice(2))
