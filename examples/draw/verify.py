"""Verifies the draw of a waiting room's pre-queue, with nothing but Python's standard library.

    python3 verify.py tickets.tsv SEED COMMITMENT DIGEST [--user NAME] [--places N] [--random N]

Every line of the list is a class, a ticket and a user. A ticket is the first 52 bits of HMAC-SHA256
with the seed as the key and the user as the message. COMMITMENT is the SHA-256 of the seed and was
published before the first user joined; DIGEST is the SHA-256 of the list. Without --user, random
places are verified: the place of a user is the number of smaller tickets in its class, plus one.
"""

import argparse
import bisect
import hashlib
import hmac
import random
import sys


def ticket(seed, user):
    tag = hmac.new(seed.encode(), user.encode(), hashlib.sha256).digest()
    return int.from_bytes(tag[:8], "big") >> 12


def main():
    parser = argparse.ArgumentParser()
    for name in ("list", "seed", "commitment", "digest"):
        parser.add_argument(name)
    parser.add_argument("--user")
    parser.add_argument("--places", type=int, default=1000)
    parser.add_argument("--random", type=int, default=None)
    options = parser.parse_args()
    if hashlib.sha256(options.seed.encode()).hexdigest() != options.commitment:
        sys.exit("the seed is not the one that was committed to")
    text = open(options.list, "rb").read()
    if hashlib.sha256(text).hexdigest() != options.digest:
        sys.exit("the list is not the one that was published")
    lines = [line.split("\t", 2) for line in text.decode().splitlines()]
    classes, places = {}, {}
    for number, drawn, user in lines:
        classes.setdefault(int(number), []).append(int(drawn))
        if user in places:
            sys.exit(f"{user!r} has two tickets")
        places[user] = (int(number), int(drawn), len(classes[int(number)]))
    if any(drawn != sorted(drawn) for drawn in classes.values()):
        sys.exit("the list is not in the order of its tickets")
    if options.user is not None:
        chosen = [options.user]
    else:
        chosen = random.Random(options.random).sample(sorted(places), min(options.places, len(places)))
    for user in chosen:
        if user not in places:
            sys.exit(f"{user!r} has no ticket")
        number, drawn, place = places[user]
        if drawn != ticket(options.seed, user):
            sys.exit(f"the ticket of {user!r} does not follow from the seed")
        # Users with the same ticket share the range of places from the first of them on.
        first = bisect.bisect_left(classes[number], drawn) + 1
        last = bisect.bisect_right(classes[number], drawn)
        if not first <= place <= last:
            sys.exit(f"{user!r} is at place {place}, not at {first}")
    if options.user is not None:
        print(f"{options.user} is at place {places[options.user][2]} of class {places[options.user][0]}")
    else:
        print(f"{len(chosen)} places of {len(places)} are as drawn")


if __name__ == "__main__":
    main()
