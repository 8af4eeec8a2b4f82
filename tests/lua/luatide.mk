# The rule engine as a Lua module for the specs in tests/lua; see core/rules/spec/spec.h.
# It takes its Lua from the interpreter that loads it, so it links with none.

LUATIDE_SOURCES := $(wildcard core/rules/*/*.c core/base/*.c core/host/*.c)
$(B)/luatide.so: $(LUATIDE_SOURCES) $(wildcard core/rules/*/*.h core/base/*.h core/host/*.h)
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(ALL_CFLAGS) -fPIC -shared -o $@ $(LUATIDE_SOURCES) $(shell pkg-config --libs libuv jansson openssl) -lm -lpthread
