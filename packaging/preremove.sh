#!/bin/sh
# Before the package is removed: dpkg calls it with `remove`, rpm with 0. In an upgrade the server runs on.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac

if [ -d /run/systemd/system ]; then systemctl disable --now tether.socket tether.service || true; fi
