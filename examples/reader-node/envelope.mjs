// Rules E: the signer, found by counting from the end, and the signature over the payload.

import crypto from 'node:crypto'
import { require } from './refusal.mjs'

const TYPE = 'application/vnd.in-toto+json'
const START = '{"payload":"'
const END = new RegExp(
  `^","payloadType":"application/vnd\\.in-toto\\+json","signatures":\\[\\{"keyid":"ed25519:([0-9a-f]{64})",` +
    `"sig":"([A-Za-z0-9+/]{86}==)"\\}\\]\\}\n$`,
)
export const ENVELOPE_END =
  `","payloadType":"${TYPE}","signatures":[{"keyid":"ed25519:","sig":""}]}\n`.length + 64 + 88

const P = 2n ** 255n - 19n
const EIGHTH = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n
const SMALL = new Set([0n, 1n, P - 1n, EIGHTH, P - EIGHTH])

// The signer's key in hexadecimal, from the last bytes of an envelope.
export function signerOf(end) {
  const found = END.exec(end.toString('latin1'))
  require(found, 'E1', 'the manifest is not an envelope')
  const backwards = Buffer.from(found[1], 'hex').reverse()
  const y = BigInt(`0x${backwards.toString('hex')}`) & (2n ** 255n - 1n)
  require(y < P && !SMALL.has(y), 'E3', "the signer's key is one for which anybody can sign")
  return { key: found[1], signature: found[2] }
}

// The payload of an envelope that this signer signed.
export function openEnvelope(envelope) {
  const { key, signature } = signerOf(envelope.subarray(-ENVELOPE_END))
  const text = envelope.subarray(START.length, -ENVELOPE_END).toString('latin1')
  const payload = Buffer.from(text, 'base64')
  const signed = Buffer.from(signature, 'base64')
  const isStart = envelope.subarray(0, START.length).toString('latin1') === START
  require(isStart && payload.toString('base64') === text, 'E1', 'the payload is not in its one spelling')
  require(signed.toString('base64') === signature, 'E1', 'the signature is not in its one spelling')

  const encoded = Buffer.concat([Buffer.from(`DSSEv1 ${TYPE.length} ${TYPE} ${payload.length} `), payload])
  require(crypto.verify(null, encoded, publicKey(key), signed), 'E4', "the signature is not the signer's")
  return payload
}

// The fingerprint that a user trusts: as it is, or of a PEM file's content.
export function fingerprintOf(pem) {
  const jwk = crypto.createPublicKey(pem).export({ format: 'jwk' })
  require(jwk.crv === 'Ed25519', 'E2', 'the public key is not an Ed25519 key')
  return `ed25519:${Buffer.from(jwk.x, 'base64url').toString('hex')}`
}

function publicKey(hex) {
  const x = Buffer.from(hex, 'hex').toString('base64url')
  return crypto.createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}
