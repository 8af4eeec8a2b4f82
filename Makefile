# tidemq: see `make help`.

VERSION := 0.1.0
B ?= build
CC ?= cc
LAYERS := base store rules broker proto net admin client

PACKAGES := lua5.4 hiredis libuv jansson
CFLAGS ?= -O2 -g
WARNINGS := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes \
	-Wwrite-strings -Wvla -Wformat=2 -Wundef -Wno-unused-parameter $(WERROR)
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -DTIDE_VERSION='"$(VERSION)"' $(WARNINGS) $(CFLAGS) $(SANITIZE) \
	-Iinclude $(shell pkg-config --cflags $(PACKAGES))
LDLIBS = $(shell pkg-config --libs $(PACKAGES)) -lmsgpackc -lm -lpthread

# One archive a layer; a layer links with those before it.
define layer_rules
$(1)_OBJS := $$(patsubst %.c,$$(B)/obj/%.o,$$(wildcard core/$(1)/*.c))
$$(B)/lib/$(1).a: $$($(1)_OBJS)
	@mkdir -p $$(@D); rm -f $$@
	@ar rcs $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rules,$(l))))

ARCHIVES := $(foreach l,client admin net proto broker rules store base,$(B)/lib/$(l).a)

$(B)/tidemq: $(B)/obj/core/main.o $(ARCHIVES)
	@echo "  link  $@"
	@$(CC) $(SANITIZE) $(LDFLAGS) -o $@ $(B)/obj/core/main.o -Wl,--start-group $(ARCHIVES) -Wl,--end-group $(LDLIBS)

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  cc    $<"
	@$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# tests/unit/<layer>/test_x.c links with its layer and those it may include.
base_UNDER := base
store_UNDER := store base
rules_UNDER := rules base
broker_UNDER := broker rules store base
proto_UNDER := proto broker rules store base
net_UNDER := net proto broker rules store base
client_UNDER := client base
define unit_rules
UNIT_TESTS += $$(patsubst tests/unit/%.c,$$(B)/unit/%,$$(wildcard tests/unit/$(1)/test_*.c))
$$(B)/unit/$(1)/%: tests/unit/$(1)/%.c $$(foreach u,$$($(1)_UNDER),$$(B)/lib/$$(u).a)
	@mkdir -p $$(@D)
	@echo "  link  $$@"
	@$$(CC) $$(ALL_CFLAGS) -Wno-missing-prototypes -Icore -o $$@ $$< $$(filter %.a,$$^) $$(LDLIBS) -lcmocka
endef
$(foreach l,base store rules broker proto net client,$(eval $(call unit_rules,$(l))))

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
