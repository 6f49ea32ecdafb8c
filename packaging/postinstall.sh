#!/bin/sh
# After the installation of the package: dpkg calls it with `configure OLD-VERSION`, rpm with the number of installed versions.
# No service is started: an administrator enables tether.socket, or a user the one of `systemctl --user`.
set -e

upgraded=
case "$1" in
configure) upgraded=$2 ;;
1) ;;
2) upgraded=yes ;;
*) exit 0 ;;
esac

# The user of tether.service. Commands have its rights, and use its shell.
if ! getent passwd tether >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/tether --no-create-home --shell /bin/sh --comment 'commands of tether' tether
fi
# tether.service has the same directory as its StateDirectory=.
[ -d /var/lib/tether ] || install -d -m 0700 -o tether -g tether /var/lib/tether

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	# A server that runs goes on with the new program, and so do its commands.
	if [ -n "$upgraded" ]; then systemctl try-reload-or-restart tether.service || true; fi
fi
