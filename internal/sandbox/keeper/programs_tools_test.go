//go:build linux

package keeper_test

import "testing"

// TestDeveloperTools: what works on the files of the workspace and on its own
// processes.
func TestDeveloperTools(t *testing.T) {
	runPrograms(t, []program{
		{name: "make", needs: []string{"make", "gcc"}, script: `rm -rf mk && mkdir mk && cd mk
for i in $(seq 40); do echo "int f$i(int x) { return x + $i; }" > f$i.c; done
printf 'OBJ := $(patsubst %%.c,%%.o,$(wildcard *.c))\nlib.a: $(OBJ)\n\tar rcs $@ $^\n' > Makefile
make -s -j8 && test "$(ar t lib.a | wc -l)" = 40`},
		{name: "git", needs: []string{"git"}, script: `rm -rf g c w && git init -q g && cd g
git config user.name x && git config user.email x@x.example
for i in 1 2 3; do echo $i > f$i; git add . && git commit -qm "$i"; done
git checkout -qb side HEAD~1 && echo s > side && git add . && git commit -qm side
git rebase -q master 2> /dev/null || git rebase -q main
git worktree add -q ../w HEAD~1 && git stash list && git gc -q && git repack -adq && cd ..
git clone -q --no-local g c && cd c && git log --oneline | wc -l | grep -qx 4
git fsck --strict && git grep -q '^s$' && git bisect start HEAD HEAD~3 > bisect.log 2>&1 && git bisect reset >> bisect.log 2>&1`},
		{name: "ssh-keygen", needs: []string{"ssh-keygen"}, account: true, script: `rm -f k k.pub m.sig
for t in ed25519 rsa ecdsa; do rm -f k k.pub; ssh-keygen -q -t $t -N '' -f k; done
echo text > m && ssh-keygen -q -Y sign -n file -f k m && echo "me $(cat k.pub)" > allowed
ssh-keygen -q -Y verify -f allowed -I me -n file -s m.sig < m`},
		{name: "tmux", needs: []string{"tmux"}, script: `export TERM=xterm TMUX_TMPDIR=/tmp; rm -f out
tmux -L t new-session -d -x 120 -y 30 'sh'
tmux -L t split-window -h; tmux -L t send-keys 'stty size > out' Enter
for i in $(seq 200); do test -s out && break; sleep 0.05; done
tmux -L t kill-server; grep -Eq '^(29|30) (59|60)$' out`},
		{name: "gdb", needs: []string{"gdb", "gcc"}, script: `cat > g.c <<'X'
#include <unistd.h>
static volatile int secret = 41;
int add(int a) { return a + secret; }
int main(int c, char **v) { if (c > 1) for (;;) pause(); return add(c) - 42; }
X
gcc -g -O0 g.c -o g
gdb -batch -nx -ex 'break add' -ex run -ex 'print secret' -ex finish -ex continue ./g > out 2>&1
grep -q '= 41' out && grep -q 'exited normally' out && ! grep -qi 'disabling address space randomization' out
./g wait & pid=$!
gdb -batch -nx -p $pid -ex 'print secret' -ex 'set var secret = 7' -ex 'print secret' -ex detach > out 2>&1
kill $pid; grep -q '= 41' out && grep -q '= 7' out`},
		{name: "strace", needs: []string{"strace"}, script: `strace -f -o s sh -c 'true; /bin/true' && grep -q 'exited with 0' s
sh -c 'while :; do sleep 0.01; done' & pid=$!
timeout 1 strace -q -f -p $pid -o s -e trace=process || true
kill $pid; grep -q 'exited with 0' s
strace -c -o s true && grep -q execve s
strace -o s -e inject=openat:error=ENOENT cat /etc/hosts && exit 1; grep -q INJECTED s`},
		{name: "sanitizers", needs: []string{"gcc"}, script: `echo '#include <stdlib.h>
int main(int c, char **v) { char *p = malloc(3); p[c > 1 ? 3 : 0] = 1; if (c < 3) free(p); p = 0; return 0; }' > a.c
gcc -g -fsanitize=address,undefined a.c -o a
./a
if ./a x 2> out; then exit 1; fi; grep -q heap-buffer-overflow out
echo '#include <stdlib.h>
int main(void) { volatile char *p = malloc(3); p[0] = 1; p = 0; return 0; }' > l.c
gcc -g -fsanitize=address l.c -o l; if ./l 2> out; then exit 1; fi; grep -q 'LeakSanitizer: detected' out
echo '#include <pthread.h>
int x; void *f(void *p) { x++; return 0; }
int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); x++; pthread_join(t, 0); return 0; }' > r.c
gcc -g -fsanitize=thread r.c -o r; if ./r 2> out; then exit 1; fi; grep -q 'data race' out`},
		{name: "valgrind", needs: []string{"valgrind", "gcc"}, script: `echo '#include <stdlib.h>
int main(void) { volatile char *p = malloc(3); p[3] = 1; return 0; }' > v.c
gcc -g v.c -o v; valgrind -q --error-exitcode=9 ./v 2> out && exit 1; grep -q 'Invalid write' out`},
	})
}

// TestServers: programs that fork, listen and share memory.
func TestServers(t *testing.T) {
	runPrograms(t, []program{
		{name: "postgresql", needs: []string{"postgresql"}, account: true, script: `PATH=$(echo /usr/lib/postgresql/*/bin | tr ' ' ':'):$PATH
rm -rf pg; initdb -D pg -A trust > log
pg_ctl -D pg -w -l pg.log -o "-k /tmp -p 5499 -c listen_addresses=127.0.0.1" start > log || { cat pg.log; exit 1; }
export PGHOST=127.0.0.1 PGPORT=5499 PGDATABASE=postgres
psql -Atc 'create table t as select generate_series(1, 200000) a; create index on t (a); analyze t'
psql -Atc 'set max_parallel_workers_per_gather = 4; set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; select sum(a) from t' | grep -x 20000100000
psql -h /tmp -Atc "listen x; notify x, 'y'" | grep -q y
pg_dump -Fc -f dump && pg_ctl -D pg -w -m fast stop > log`},
		{name: "redis", needs: []string{"redis"}, script: `rm -rf rd && mkdir rd && cd rd
redis-server --port 6399 --unixsocket /tmp/r.sock --appendonly yes --dir . > log &
for i in $(seq 200); do redis-cli -p 6399 ping > /dev/null 2>&1 && break; sleep 0.05; done
redis-cli -p 6399 set a b; redis-cli -s /tmp/r.sock get a | grep -x b
redis-cli -p 6399 save; redis-cli -p 6399 bgrewriteaof; redis-cli -p 6399 bgsave || true
redis-cli -p 6399 eval 'return redis.call("get", "a")' 0 | grep -x b
for i in $(seq 200); do redis-cli -p 6399 info persistence | grep -q 'aof_rewrite_in_progress:0' && break; sleep 0.05; done
redis-cli -p 6399 info persistence | grep -q 'aof_last_bgrewrite_status:ok'
redis-cli -p 6399 shutdown; wait; test -s dump.rdb`},
	})
}
