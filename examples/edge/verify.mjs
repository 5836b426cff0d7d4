// Checks a pass of a waiting room without a call and without a library (Node 20 or newer, and other
// runtimes with WebCrypto). The keys are those that the room's server publishes.
//
//   node verify.mjs jwks.json concert <pass>

import { readFile } from 'node:fs/promises';

const decode = (part) => JSON.parse(Buffer.from(part, 'base64url').toString());

/** The claims of a pass that is valid for this room at this time; throws if it is not. */
export async function verifyPass(jwks, room, pass, nowSecs = Date.now() / 1000) {
  const [header, claims, signature] = pass.split('.');
  const { alg, kid } = decode(header);
  const jwk = jwks.keys.find((key) => key.kid === kid && key.crv === 'Ed25519');
  if (alg !== 'EdDSA' || !jwk) throw new Error('unknown key');
  const { kty, crv, x } = jwk;
  const key = await crypto.subtle.importKey('jwk', { kty, crv, x }, 'Ed25519', false, ['verify']);
  const message = Buffer.from(`${header}.${claims}`);
  const isSigned = await crypto.subtle.verify('Ed25519', key, Buffer.from(signature, 'base64url'), message);
  if (!isSigned) throw new Error('bad signature');
  const found = decode(claims);
  if (found.room !== room) throw new Error('another room');
  if (nowSecs >= found.exp) throw new Error('expired');
  return found;
}

if (process.argv[1] === import.meta.filename) {
  const [, , path, room, pass] = process.argv;
  try {
    const found = await verifyPass(JSON.parse(await readFile(path, 'utf8')), room, pass);
    console.log(JSON.stringify(found));
  } catch (error) {
    console.error(`refused: ${error.message}`);
    process.exitCode = 1;
  }
}
