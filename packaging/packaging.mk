# packaging.mk: what is installed, and packages of it. The Makefile includes it.

# ---- made from what the binary says of itself ---------------------------------

# The day that pages have: that of the sources, where a build is to be reproducible.
DATE = $(shell date -u -d "@$${SOURCE_DATE_EPOCH:-$$(date +%s)}" +%Y-%m-%d)

# A man page for each verb.
$(B)/man/.made: $(B)/tidemq tools/man_page.awk
	@rm -rf $(@D); mkdir -p $(@D)
	@$(B)/tidemq help | sed -n 's/^  \([a-z-]*\)  *.*/\1/p' | while read -r verb; do \
		$(B)/tidemq help "$$verb" | awk -v verb="$$verb" -v version=$(VERSION) -v date=$(DATE) \
			-f tools/man_page.awk >"$(@D)/tidemq-$$verb.1" || exit; done
	@$(B)/tidemq help | sed -n -e '1,/^usage/d' -e 's/-/\\-/g' \
		-e 's/^  \([a-z\\-]*\)  *\(.*\)/.TP\n.BR tidemq\\-\1 (1)\n\2/p' >$(@D)/verbs
	@touch $@

# The configuration of the service.
$(B)/tidemq.lua: $(B)/tidemq tools/config_file.awk
	@$(B)/tidemq help serve | awk -v data=/var/lib/tidemq -v rules=@SYSCONFDIR@/tidemq/rules \
		-f tools/config_file.awk >$@

# ---- installing ---------------------------------------------------------------

.PHONY: install uninstall
BIN = $(DESTDIR)$(PREFIX)/bin
SHARE = $(DESTDIR)$(PREFIX)/share
LIB = $(DESTDIR)$(LIBDIR)
INCLUDE = $(DESTDIR)$(PREFIX)/include/tidemq
ETC = $(DESTDIR)$(SYSCONFDIR)/tidemq
DOC = $(SHARE)/doc/tidemq
SYSTEMD = $(DESTDIR)$(PREFIX)/lib
# Where zsh looks: packages have a directory of their own.
ZSH = $(SHARE)/zsh/$(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)
FISH = $(SHARE)/fish/vendor_completions.d
FILL_IN = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' \
	-e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@DATE@|$(DATE)|g' \
	-e '/^@VERBS@$$/ { r $(B)/man/verbs' -e 'd }'

install: all
	install -d $(BIN) $(INCLUDE) $(LIB)/pkgconfig $(SYSTEMD)/systemd/system $(SYSTEMD)/sysusers.d $(SHARE)/man/man1
	install -m 755 $(B)/tidemq $(BIN)/tidemq
	install -m 644 include/tidemq/*.h $(INCLUDE)
	install -m 644 $(B)/libtidemq.a $(LIB)/libtidemq.a
	$(FILL_IN) packaging/tidemq.pc.in >$(LIB)/pkgconfig/tidemq.pc
	$(FILL_IN) packaging/tidemq.service.in >$(SYSTEMD)/systemd/system/tidemq.service
	install -m 644 packaging/tidemq.sysusers $(SYSTEMD)/sysusers.d/tidemq.conf
	install -m 644 $(B)/man/*.1 $(SHARE)/man/man1
	$(FILL_IN) docs/tidemq.1 >$(SHARE)/man/man1/tidemq.1
	find lua -name '*.lua' | while read -r f; do install -D -m 644 "$$f" "$(SHARE)/tidemq/$$f"; done
	tools/install_rules.sh "$(SHARE)/tidemq/rules" "$(ETC)/rules"
	$(FILL_IN) $(B)/tidemq.lua >$(SHARE)/tidemq/tidemq.lua
	[ -e "$(ETC)/tidemq.lua" ] || install -m 644 $(SHARE)/tidemq/tidemq.lua $(ETC)/tidemq.lua
	install -D -m 644 packaging/completion.bash $(SHARE)/bash-completion/completions/tidemq
	install -d $(ZSH) $(FISH)
	$(FILL_IN) packaging/completion.zsh >$(ZSH)/_tidemq
	$(FILL_IN) packaging/completion.fish >$(FISH)/tidemq.fish
	install -d $(DOC)
	install -m 644 README.md CHANGELOG.md LICENSE docs/*.md docs/*.svg $(DOC)
	find examples -type f ! -path '*/__pycache__/*' | while read -r f; do \
		install -D -m "$$([ -x "$$f" ] && echo 755 || echo 644)" "$$f" "$(DOC)/$$f"; done

# What an operator edits stays.
uninstall:
	rm -f $(BIN)/tidemq $(LIB)/libtidemq.a $(LIB)/pkgconfig/tidemq.pc
	rm -f $(SYSTEMD)/systemd/system/tidemq.service $(SYSTEMD)/sysusers.d/tidemq.conf
	rm -f $(SHARE)/man/man1/tidemq.1 $(SHARE)/man/man1/tidemq-*.1
	rm -f $(SHARE)/bash-completion/completions/tidemq $(ZSH)/_tidemq
	rm -f $(FISH)/tidemq.fish
	rm -rf $(INCLUDE) $(SHARE)/tidemq $(DOC)
	@[ ! -d $(ETC) ] || echo "$(ETC) stays: remove it if nobody needs its rules and its configuration"

# ---- packages -----------------------------------------------------------------

.PHONY: deb deps-deb image test-deb
deps-deb:
	@tools/deps.sh build deb
deb: deps-deb
	@packaging/build_deb.sh $(B)/deb $(VERSION)

IMAGE_SUITE ?= bookworm
image:
	@packaging/oci/build_image.sh $(B)/image $(VERSION) $(IMAGE_SUITE)

SUITES ?= bookworm trixie
test-deb:
	@tests/packages/test_packages.sh $(SUITES)
