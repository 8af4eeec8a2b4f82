# tidemq: see `make help`.

VERSION := 0.3.0
B ?= build
CC ?= cc
PREFIX ?= /usr/local
# The floors of core/, from the lowest; a floor calls itself and those before it (make lint).
FLOORS := base figures host tls store rules/sandbox rules/api rules/engine rules/spec access log shard broker schedule follow rollout \
	session ops proto proto/line proto/stomp proto/amqp http net client cli check audit

PACKAGES := lua5.4 hiredis libuv jansson openssl ncursesw
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
	-Wwrite-strings -Wvla -Wformat=2 -Wundef -Wno-unused-parameter $(WERROR)

# Asked once, and only by what compiles: `make deps` runs before they are there.
PACKAGE_CFLAGS = $(eval PACKAGE_CFLAGS := $$(shell pkg-config --cflags $(PACKAGES)))$(PACKAGE_CFLAGS)
PACKAGE_LIBS = $(eval PACKAGE_LIBS := $$(shell pkg-config --libs $(PACKAGES)))$(PACKAGE_LIBS)

BASE_CFLAGS = -std=c11 -D_GNU_SOURCE -DTIDE_VERSION='"$(VERSION)"' $(CFLAGS) $(SANITIZE) -Iinclude -Icore \
	$(PACKAGE_CFLAGS)
ALL_CFLAGS = $(BASE_CFLAGS) $(WARNINGS)
# wslay comes without a file for pkg-config.
LDLIBS = $(PACKAGE_LIBS) -lwslay -lm -lpthread
ALL_LDFLAGS = $(SANITIZE) $(LDFLAGS)
# What an operator edits.
LIBDIR ?= $(PREFIX)/lib
SYSCONFDIR ?= $(if $(filter /usr /usr/local,$(PREFIX)),/etc,$(PREFIX)/etc)
# Where main finds lua/ and rules/ when the current directory has none.
SHARE_CFLAGS = -DTIDE_SHARE_DIR='"$(PREFIX)/share/tidemq"' -DTIDE_RULES_DIR='"$(SYSCONFDIR)/tidemq/rules"'

# Every core at once, unless the caller says otherwise; a sub-make shares them.
ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

.PHONY: all unit
all: $(B)/tidemq $(B)/libtidemq.a $(B)/man/.made $(B)/tidemq.lua

# ---- what rebuilds when flags change ------------------------------------

# A stamp holds the flags that its objects were built with. WERROR is not among
# them: it changes what is refused, never what is built.
quote = '$(subst ','\'',$(1))'
define stamp
	@mkdir -p $(@D)
	@printf '%s\n' $(call quote,$(1)) | cmp -s - $@ || printf '%s\n' $(call quote,$(1)) >$@
endef

.PHONY: FORCE
$(B)/stamp/flags: FORCE
	@pkg-config --exists $(PACKAGES) || { echo "libraries are missing: run 'make deps'" >&2; exit 1; }
	$(call stamp,$(CC) $(BASE_CFLAGS))
$(B)/stamp/share: FORCE
	$(call stamp,$(SHARE_CFLAGS))
$(B)/stamp/link: FORCE
	$(call stamp,$(CC) $(ALL_LDFLAGS) $(LDLIBS))

# ---- objects and archives -----------------------------------------------

# One archive a floor. The list of its objects is a stamp too, so that a deleted
# source leaves its archive.
http_MORE := $(B)/obj/core/http/page.o
store_MORE := $(B)/obj/core/store/scripts.o
define floor_rules
$(1)_OBJS := $$(patsubst %.c,$$(B)/obj/%.o,$$(wildcard core/$(1)/*.c)) $$($(1)_MORE)
$$(B)/stamp/objects/$(subst /,-,$(1)): FORCE
	$$(call stamp,$$($(1)_OBJS))
$$(B)/lib/$(1).a: $$($(1)_OBJS) $$(B)/stamp/objects/$(subst /,-,$(1))
	@mkdir -p $$(@D); rm -f $$@.new
	@ar rcs $$@.new $$($(1)_OBJS); mv $$@.new $$@
endef
$(foreach l,$(FLOORS),$(eval $(call floor_rules,$(l))))

ARCHIVES := $(foreach l,$(FLOORS),$(B)/lib/$(l).a)
LINK_ARCHIVES := -Wl,--start-group $(ARCHIVES) -Wl,--end-group
MAIN_OBJS := $(patsubst %.c,$(B)/obj/%.o,$(wildcard core/*.c))
$(MAIN_OBJS): ALL_CFLAGS += $(SHARE_CFLAGS)
$(MAIN_OBJS): $(B)/stamp/share

$(B)/tidemq: $(MAIN_OBJS) $(ARCHIVES) $(B)/stamp/link
	@echo "  link  $@"
	@$(CC) $(ALL_LDFLAGS) -o $@ $(MAIN_OBJS) $(LINK_ARCHIVES) $(LDLIBS)

# The page and the description of the API are in the binary.
EMBEDDED := $(sort $(shell find core/http/page -type f)) $(wildcard docs/openapi.json)
$(B)/stamp/embedded: FORCE
	$(call stamp,$(EMBEDDED))
$(B)/obj/core/http/page.o: $(EMBEDDED) tools/embed.sh $(B)/stamp/embedded $(B)/stamp/flags
	@mkdir -p $(@D)
	@echo "  embed $@"
	@tools/embed.sh $(EMBEDDED) >$(@:.o=.s)
	@$(CC) -c -o $@ $(@:.o=.s)

# So are the scripts that Redis runs.
STORE_SCRIPTS := $(wildcard core/store/*.lua)
$(B)/stamp/scripts: FORCE
	$(call stamp,$(STORE_SCRIPTS))
$(B)/obj/core/store/scripts.o: $(STORE_SCRIPTS) tools/embed_scripts.awk core/store/scripts.h $(B)/stamp/scripts $(B)/stamp/flags
	@mkdir -p $(@D)
	@echo "  embed $@"
	@awk -f tools/embed_scripts.awk $(STORE_SCRIPTS) >$(@:.o=.c)
	@$(CC) $(ALL_CFLAGS) -c -o $@ $(@:.o=.c)

$(B)/obj/%.o: %.c $(B)/stamp/flags
	@mkdir -p $(@D)
	@echo "  cc    $<"
	@$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The client library: the floors client, tls and base, made one object whose only
# global names are those of the public headers.
LIBRARY_OBJS := $(client_OBJS) $(tls_OBJS) $(base_OBJS)
$(B)/libtidemq.a: $(LIBRARY_OBJS)
	@echo "  ar    $@"
	@ld -r -o $(B)/libtidemq.o $(LIBRARY_OBJS)
	@objcopy --wildcard --keep-global-symbol='tidemq_*' $(B)/libtidemq.o
	@rm -f $@; ar rcs $@ $(B)/libtidemq.o

# The same broker with a row more in some tables: what the recipes of docs/architecture.md
# promise, rehearsed by a test.
REHEARSED := $(patsubst %,$(B)/rehearsal/core/%.o,broker/config broker/queue_figures rules/api/queue_facts \
	cli/cli_answer ops/operation_rows)
$(B)/rehearsal/%.o: %.c $(B)/stamp/flags
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) -DTIDE_REHEARSAL -MMD -MP -c -o $@ $<
$(B)/rehearsal/tidemq: $(REHEARSED) $(MAIN_OBJS) $(ARCHIVES) $(B)/stamp/link
	@echo "  link  $@"
	@$(CC) $(ALL_LDFLAGS) -o $@ $(REHEARSED) $(MAIN_OBJS) $(LINK_ARCHIVES) $(LDLIBS)

# ---- unit tests -----------------------------------------------------------

# tests/unit/<floor>/test_x.c links with all floors. A test that includes
# failing_mem.h can make the n-th mem_try_* fail; one that defines __wrap_pace_is_over says
# when a slice of a turn is over.
MEM_WRAP := -Wl,--wrap=mem_try_alloc,--wrap=mem_try_realloc
UNIT_TESTS := $(foreach l,$(FLOORS),$(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/$(l)/test_*.c)))
$(B)/unit/%: tests/unit/%.c $(ARCHIVES) $(B)/stamp/link
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) -Wno-missing-prototypes -Itests/unit -MMD -MP -MF $@.d \
		$(LDFLAGS) $(shell grep -q failing_mem.h $< && echo '$(MEM_WRAP)') \
		$(shell grep -q __wrap_pace_is_over $< && echo '-Wl,--wrap=pace_is_over') \
		-o $@ $< $(LINK_ARCHIVES) $(LDLIBS) -lcmocka

unit: $(UNIT_TESTS)

# The real rule engine as a Lua module, for the tests of scripts.
include tests/lua/luatide.mk

# ---- fuzzers --------------------------------------------------------------

# Built by `make fuzz`, with clang. The clock is theirs to set.
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/fuzzers/%,$(wildcard tests/fuzz/fuzz_*.c))
$(B)/fuzzers/%: tests/fuzz/%.c $(ARCHIVES) $(B)/stamp/link
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -Itests/unit -MMD -MP -MF $@.d $(LDFLAGS) \
		$(shell grep -qE '__wrap_clock_gettime|fuzz_peers.h' $< && echo '-Wl,--wrap=clock_gettime') \
		-o $@ $< $(LINK_ARCHIVES) $(LDLIBS)
.PHONY: fuzzers
fuzzers: $(FUZZERS)

-include $(shell find $(B)/obj $(B)/rehearsal $(B)/unit $(B)/fuzzers -name '*.d' 2>/dev/null)

# ---- running and testing -----------------------------------------------------

.PHONY: deps deps-test deps-test-browser deps-test-clients deps-lint deps-fuzz deps-bench run test matrix chaos model soak fuzz asan lint format format-check pictures demo cluster sentinel clean help
deps:
	@tools/deps.sh build
deps-test:
	@tools/deps.sh build test
deps-test-browser deps-test-clients:
	@tools/deps.sh build test $(@:deps-%=%)
deps-lint:
	@tools/deps.sh build lint
deps-fuzz:
	@tools/deps.sh build fuzz
deps-bench:
	@tools/deps.sh build bench

run: deps
	@$(MAKE) all
	@tools/run.sh $(B)/tidemq serve --data ./data --rules ./rules $(RUN_ARGS)

# WHAT: any of unit, lua, integration, sanitized.
WHAT ?= unit integration lua
test: deps-test
	@$(MAKE) all unit $(B)/luatide.so $(B)/rehearsal/tidemq
	@tools/run_tests.sh $(B) $(WHAT)

# Each fuzzer for SECONDS; FUZZ names some of them. Their corpus stays in B/fuzz.
# NULL + 0, which clang alone minds, is the start of every empty buffer.
SECONDS ?= 20
FUZZ ?=
FUZZ_SANITIZE := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=pointer-overflow \
	-fno-sanitize-recover=undefined -fno-omit-frame-pointer
fuzz: deps-fuzz
	@$(MAKE) fuzzers B=$(B)/fuzz CC=clang CFLAGS="-O1 -g" SANITIZE="$(FUZZ_SANITIZE)"
	@tests/fuzz/run.sh $(B)/fuzz $(SECONDS) $(FUZZ)

# The whole crash matrix; the suite takes a tenth of it.
matrix: deps-test
	@$(MAKE) all
	@TIDEMQ=$(abspath $(B))/tidemq tests/chaos/matrix.sh

# A file system to fill needs the right to mount, and is gone with the namespace. So is a network to cut.
CHAOS_RUN = $(shell unshare --mount --net ip link set lo up 2>/dev/null && echo TIDE_CHAOS_NET=1 unshare --mount --net || \
	{ unshare --mount true 2>/dev/null && echo unshare --mount; }) lua5.4
chaos: deps-test
	@$(MAKE) all
	@TIDEMQ=$(abspath $(B))/tidemq $(CHAOS_RUN) tests/chaos/chaos.lua
model: deps-test
	@$(MAKE) all
	@TIDEMQ=$(abspath $(B))/tidemq lua5.4 tests/model/model.lua
soak: deps-test
	@$(MAKE) all
	@TIDEMQ=$(abspath $(B))/tidemq OUT=$(or $(OUT),$(B)/soak.svg) lua5.4 tests/chaos/soak.lua

# CI runs ASAN="unit sanitized": less of what reaches the same C. With -no-pie a process starts
# in three quarters of the time: there are 280,000 relocations less.
ASAN ?= unit integration
asan:
	@TIDE_TEST_PATIENCE=3 TIDE_MATRIX_SHARE=50 $(MAKE) test B=$(B)/asan WHAT="$(ASAN)" CFLAGS="-O1 -g" \
		LDFLAGS=-no-pie \
		SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"

C_FILES = $(shell find core include tests examples -name '*.[ch]')
lint: deps-lint
	@$(MAKE) all
	@B="$(B)" FLOORS="$(FLOORS)" CC="$(CC)" CFLAGS=$(call quote,$(ALL_CFLAGS)) tools/lint.sh
format: deps-lint
	@clang-format -i $(C_FILES)
format-check: deps-lint
	@clang-format --dry-run -Werror $(C_FILES)

# docs/dashboard-*.png, in about five minutes.
pictures: deps-test-browser
	@$(MAKE) all
	@TIDEMQ=$(abspath $(B))/tidemq lua5.4 tools/dashboard_pictures.lua

# The tables that the broker prints: options; and operations, which it tells by GET /api.
.PHONY: docs
docs: deps
	@$(MAKE) all $(B)/rehearsal/tidemq
	@lua5.4 tools/make_docs.lua $(B)/tidemq docs/*.md
	@UPDATE=1 TIDEMQ=$(B)/tidemq lua5.4 /usr/bin/busted tests/integration/operations_spec.lua

cluster sentinel: deps
	@$(MAKE) all
	@TIDEMQ=$(B)/tidemq examples/cluster/run.sh $@
demo: deps
	@$(MAKE) all
	@TIDEMQ=$(abspath $(B))/tidemq examples/demo.sh

# ---- measuring --------------------------------------------------------------

.PHONY: bench bench-cluster bench-confirm bench-peers bench-topics bench-rules bench-scrape profile
LOAD_SOURCES := $(wildcard tests/bench/peers/*.c)
$(B)/bench/load: $(LOAD_SOURCES) $(wildcard tests/bench/peers/*.h) $(B)/lib/base.a
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) -o $@ $(LOAD_SOURCES) $(B)/lib/base.a -lm
$(B)/bench/fake_server: tests/bench/peers/fake/server.c $(B)/lib/base.a
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) -o $@ $^ -lm

bench: deps-test
	@$(MAKE) all $(B)/bench/load $(B)/bench/fake_server
	@lua5.4 tests/bench/run.lua $(B) $(B)/bench.md fake tidemq tidemq-everysec
# What it costs to wait for a replica (--confirm replicas=1).
bench-confirm: deps-test
	@$(MAKE) all $(B)/bench/load
	@lua5.4 tests/bench/run.lua $(B) $(B)/bench-confirm.md confirm-master confirm-replicas
bench-cluster: deps-test
	@$(MAKE) all
	@TIDEMQ=$(abspath $(B))/tidemq lua5.4 tests/bench/cluster.lua $(B)/bench-cluster.md
bench-peers: deps-test
	@$(MAKE) all $(B)/bench/load $(B)/bench/fake_server
	@lua5.4 tests/bench/run.lua $(B) $(B)/bench-peers.md
	@lua5.4 tests/bench/topics.lua $(B) $(B)/bench-topics.md
# What a scrape of /metrics costs others, with QUEUES=100000 queues.
bench-scrape: deps-test
	@$(MAKE) all
	@lua5.4 tests/bench/scrape.lua $(B) $(B)/bench-scrape.md
bench-topics: deps-test
	@$(MAKE) all $(B)/bench/load $(B)/bench/fake_server
	@lua5.4 tests/bench/topics.lua $(B) $(B)/bench-topics.md $(SERVERS)
profile: deps-test
	@tools/deps.sh profile
	@$(MAKE) all $(B)/bench/load
	@lua5.4 tests/bench/profile.lua $(B) $(B)/profile.md

# Instructions of the hot paths, counted by callgrind. The figures of tests/bench/guard/expected.txt are
# of a build with -O2 by gcc: the objects of a build with other flags are not taken. (Debian 12's valgrind
# cannot read the DWARF 5 of its clang.)
.PHONY: guard
GUARD_FLAGS := -O2 $(if $(findstring clang,$(CC)),-gdwarf-4,-g)
GUARD_B = $(if $(filter-out $(GUARD_FLAGS),$(CFLAGS) $(SANITIZE) $(LDFLAGS)),$(B)/guard,$(B))
GUARD_SOURCES := $(wildcard tests/bench/guard/*.c)
$(B)/hot_paths: $(GUARD_SOURCES) $(wildcard tests/bench/guard/*.h) $(ARCHIVES) $(B)/stamp/link
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) $(LDFLAGS) -Wl,--wrap=clock_gettime,--wrap=uv_hrtime \
		-o $@ $(GUARD_SOURCES) \
		$(LINK_ARCHIVES) $(LDLIBS)
guard: deps-bench
	@$(MAKE) $(GUARD_B)/hot_paths B=$(GUARD_B) CFLAGS="$(GUARD_FLAGS)" SANITIZE= LDFLAGS=
	@lua5.4 tests/bench/guard/run.lua $(GUARD_B) $(UPDATE)

# What each option adds to a message, counted the same way.
.PHONY: bench-options
OPTION_SOURCES := $(wildcard tests/bench/options/*.c) tests/bench/guard/rig.c tests/bench/guard/redis_stand_in.c
$(B)/option_costs: $(OPTION_SOURCES) $(wildcard tests/bench/guard/*.h) $(ARCHIVES) $(B)/stamp/link
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) -Itests/bench $(LDFLAGS) -Wl,--wrap=clock_gettime,--wrap=uv_hrtime \
		-o $@ $(OPTION_SOURCES) \
		$(LINK_ARCHIVES) $(LDLIBS)
bench-options: deps-bench
	@$(MAKE) $(GUARD_B)/option_costs B=$(GUARD_B) CFLAGS="$(GUARD_FLAGS)" SANITIZE= LDFLAGS=
	@lua5.4 tests/bench/options/run.lua $(GUARD_B) $(B)/bench-options.md

$(B)/bench/rules: tests/bench/rules/bench_rules.c $(ARCHIVES)
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) -o $@ $< $(LINK_ARCHIVES) $(LDLIBS)
bench-rules: deps
	@$(MAKE) $(B)/bench/rules $(B)/luatide.so
	@status=0; $(B)/bench/rules || status=1; \
	TIDEMQ=$(B)/tidemq lua5.4 tests/bench/json.lua || status=1; \
	TIDEMQ=$(B)/tidemq lua5.4 tests/bench/rule_metrics.lua || status=1; exit $$status

include packaging/packaging.mk

clean:
	rm -rf $(B)

help:
	@sed -n 's/^#: //p' Makefile

#: make                the binary and the client library, in build/
#: make run            install what is missing, build, and start a broker in ./data
#: make test           every test; WHAT="unit lua integration" chooses
#: make matrix         cut, kill broker, kill Redis at every command to Redis (10 minutes)
#: make chaos          every fault at random for TIME=60s; SEED= repeats; figures at the end; STORE=cluster, STORE=sentinel
#: make model          random scripts of verbs and faults against a model for TIME=60s; SEED= repeats
#: make soak           everything at once for TIME=60s; draws memory and latency to OUT=build/soak.svg
#: make asan           the tests under AddressSanitizer and UBSan
#: make fuzz           fuzz every parser, SECONDS=20 each; FUZZ=fuzz_line names one
#: make lint           floors, luacheck, shellcheck, mandoc, mypy, format, file lengths
#: make format         clang-format every C file; format-check only looks
#: make bench          throughput and latency of this build; a table in build/bench.md
#: make bench-confirm  what it costs to wait for a replica; a table in build/bench-confirm.md
#: make bench-cluster  what a message costs each Redis of a cluster, of one master and of three
#: make bench-rules    what a decision costs, with and without Lua; fails above a limit
#: make profile        where the broker's processor time goes, by component (needs perf)
#: make bench-peers    the same work for Redis, NATS, RabbitMQ, beanstalkd, as installed
#: make bench-scrape   what a scrape of /metrics costs others; QUEUES=100000
#: make bench-topics   the topics of bench-peers alone; SERVERS="fake tidemq": those; FULL=1: 10,000,000 messages
#: make bench-options  what each option adds to a message, in instructions; a table in build/bench-options.md
#: make guard          instructions of the hot paths against expected.txt; UPDATE=1 rewrites it
#: make docs           the tables of options and of operations in docs, and docs/openapi.json, from the binary
#: make pictures       the pictures of the dashboard in docs, from a broker with load (five minutes)
#: make demo           a guided tour of a broker, crashes included
#: make cluster        a broker on a Redis Cluster of three masters and three replicas, to try; Ctrl-C ends all
#: make sentinel       a broker on a Redis master with a replica and three Sentinels, likewise
#: make deps           install what the build needs (deps-test, deps-lint, deps-fuzz, deps-bench, deps-deb: more)
#: make deps-test-browser deps-test-clients   what the tests of the dashboard, and of clients that others wrote, need
#: make install        to $(DESTDIR)$(PREFIX), by default /usr/local; rules to /etc/tidemq/rules; uninstall
#: make deb            packages for this Debian, in build/deb; DEB_BUILD_OPTIONS=terse: fewer words
#: make image          an OCI image of the packages, in build/image; IMAGE_SUITE=bookworm (needs root)
#: make test-deb       packages and image, tried in bare roots of Debian; SUITES="bookworm trixie" (needs root)
#: make clean          remove build/
#:
#: Variables: B=build CC=cc CFLAGS="-O2 -g" WERROR=-Werror SANITIZE= PREFIX=/usr/local
#:            DESTDIR= SYSCONFDIR=/etc RUN_ARGS="--listen 127.0.0.1:0"
