# Which packages a Debian machine upgraded most often, and on which days it
# was busy, out of its own package manager's log.
set -eu
echo "lines: $(wc -l < dpkg.log), first: $(head -1 dpkg.log | cut -d' ' -f1), last: $(tail -1 dpkg.log | cut -d' ' -f1)"
echo "actions:"
awk '$3 == "install" || $3 == "upgrade" || $3 == "remove" {n[$3]++} END {for (a in n) printf "  %-8s %d\n", a, n[a]}' dpkg.log | sort
echo "busiest days:"
awk '$3 == "status" && $4 == "installed" {print $1}' dpkg.log | sort | uniq -c | sort -rn | head -3
echo "upgraded most often:"
awk '$3 == "upgrade" {print $4}' dpkg.log | cut -d: -f1 | sort | uniq -c | sort -rn | tee counts.txt | head -5
