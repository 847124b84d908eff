// Read payloads in base64, one a line; answer each with "accepted", or with the rule that refuses it.

import readline from 'node:readline'
import { readStatement } from '../../examples/reader-node/read.mjs'
import { Refusal } from '../../examples/reader-node/refusal.mjs'

for await (const line of readline.createInterface({ input: process.stdin })) {
  try {
    readStatement(Buffer.from(line, 'base64'))
    console.log('accepted')
  } catch (error) {
    if (!(error instanceof Refusal)) console.error(error)
    console.log(error instanceof Refusal ? error.message : `fault: ${error.message}`)
  }
}
