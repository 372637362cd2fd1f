# Runs a command on this host as if little were installed on it: of /usr/lib and its
# like there is what Python, git and the C compiler need. A snapshot of this host
# then takes seconds. For a mount namespace of its own.
# Arguments: a directory to make mounts in, and the command.
set -eu
stage=$1
shift
mkdir -p "$stage/lib" "$stage/share" "$stage/local"
for from in /usr/lib/python3* /usr/lib/*-linux-gnu /usr/lib/gcc /usr/lib/git-core /usr/lib/locale /usr/share/zoneinfo; do
	[ -d "$from" ] || continue
	mkdir -p "$stage${from#/usr}"
	mount --bind "$from" "$stage${from#/usr}"
done
for dir in lib share local; do
	mount --rbind "$stage/$dir" "/usr/$dir"
done
exec "$@"
