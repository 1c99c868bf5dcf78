// Verifies and signs cards with the official JavaScript SDK. Reads {key, cards} from standard input: a private JWK, and
// signed cards by their names. Writes, for each card, what came of it.
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { text } from 'node:stream/consumers';

import { AgentCard, canonicalizeAgentCard, generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk';

console.debug = () => {}; // where the SDK writes each signature that is not good

const { key, cards } = JSON.parse(await text(process.stdin));
const privateKey = createPrivateKey({ key, format: 'jwk' });
const publicKey = createPublicKey(privateKey);
const verify = verifyAgentCardSignature(async () => publicKey);
const sign = generateAgentCardSignature(privateKey, { alg: key.alg, kid: key.kid, typ: 'JOSE' });

/** Returns whether a card verifies. */
async function verifies(card) {
  try {
    await verify(card);
    return true;
  } catch {
    return false;
  }
}

const results = {};
for (const [name, card] of Object.entries(cards)) {
  const { signatures, ...unsigned } = card;
  results[name] = {
    form: canonicalizeAgentCard(card),
    verified: await verifies(card), // the JSON as it was fetched
    model: await verifies(AgentCard.fromJSON(card)), // the card as the SDK's client has it
    signed: await sign(unsigned),
    modelSigned: AgentCard.toJSON(await sign(AgentCard.fromJSON(unsigned))),
  };
}
process.stdout.write(JSON.stringify(results));
