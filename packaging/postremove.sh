#!/bin/sh
# After the package was removed: dpkg calls it with `remove`, and with `purge` if its state is to go, too; rpm with 0.
# The user tether stays: files that its commands made elsewhere must not become those of the next user with its number. So does
# /etc/tether, which an administrator has made.
set -e

case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac

if [ "$1" = purge ]; then
	rm -rf /var/lib/tether /run/tether
	rm -f /etc/systemd/system/sockets.target.wants/tether.socket /etc/systemd/system/multi-user.target.wants/tether.service
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
