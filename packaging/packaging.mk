# packaging.mk: man pages, the configuration file, the packages. The Makefile includes it.

# The day of what has a date, as reproducible builds have it.
DATE := $(shell date -u -d "@$${SOURCE_DATE_EPOCH:-$$(date +%s)}" +%Y-%m-%d)

# ---- made from what the binary says of itself ----------------------------------

# One page for each verb, and the overview.
$(B)/man/tidemq.1: $(B)/tidemq tools/man_page.awk docs/tidemq.1 packaging/packaging.mk
	@mkdir -p $(@D); rm -f $(@D)/*
	@$(B)/tidemq help | sed -n 's/^  \([a-z-]*\)  *.*/\1/p' | while read -r verb; do \
		$(B)/tidemq help "$$verb" | awk -v verb="$$verb" -v version=$(VERSION) -v date=$(DATE) \
			-f tools/man_page.awk >$(@D)/tidemq-$$verb.1 || exit; done
	@$(FILL_IN) -e 's|@DATE@|$(DATE)|g' docs/tidemq.1 >$@
$(B)/tidemq.lua: $(B)/tidemq tools/config_file.awk packaging/packaging.mk
	@$(B)/tidemq help serve | awk -v data=/var/lib/tidemq -v rules=$(SYSCONFDIR)/tidemq/rules \
		-f tools/config_file.awk >$@
