# What a program sees in a box. Run it outside, then inside:
#   sh docs/demo.sh
#   bin/caisson run -- sh docs/demo.sh
echo "I am      $(id -un 2>/dev/null || id -u), uid $(id -u), process $$ of $(ls -d /proc/[0-9]* | wc -l)"
echo "here      $PWD: $(ls -A | wc -l) entries"
echo "my home   $HOME: $(ls -A "$HOME" 2>/dev/null | wc -l) entries"
echo "network   $(tail -n +3 /proc/net/dev | cut -d: -f1 | xargs)"
getent hosts example.org >/dev/null && echo "names     example.org resolves" || echo "names     example.org does not resolve"
