"""Verifies and signs cards with the official Python SDK.

Reads {key, cards} from standard input: a private JWK, and signed cards by their names. Writes, for each card, what came
of it.
"""

import copy
import json
import logging
import sys

from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import (
    SignatureVerificationError,
    _canonicalize_agent_card,
    create_agent_card_signer,
    create_signature_verifier,
)
from google.protobuf.json_format import MessageToDict
from jwt.api_jwk import PyJWK

logging.disable(logging.CRITICAL)  # the SDK warns of each required field that is empty


def public(jwk):
    return PyJWK({k: v for k, v in jwk.items() if k not in ('d', 'p', 'q', 'dp', 'dq', 'qi')})


def main():
    task = json.load(sys.stdin)
    jwk = task['key']
    verify = create_signature_verifier(lambda kid, jku: public(jwk), [jwk['alg']])
    sign = create_agent_card_signer(PyJWK(jwk), {'alg': jwk['alg'], 'kid': jwk['kid'], 'typ': 'JOSE'})

    def verifies(card):
        try:
            verify(parse_agent_card(copy.deepcopy(card)))
        except SignatureVerificationError:
            return False
        return True

    def signed(card):
        card = parse_agent_card(copy.deepcopy(card))
        del card.signatures[:]
        return MessageToDict(sign(card))

    results = {}
    for name, card in task['cards'].items():
        results[name] = {
            'form': _canonicalize_agent_card(parse_agent_card(copy.deepcopy(card))),
            'verified': verifies(card),
            'signed': signed(card),
        }
    json.dump(results, sys.stdout)


main()
