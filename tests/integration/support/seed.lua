--- The seed of what a test leaves to chance. It is 1, so that `make test` does the same each time;
--- TIDE_TEST_SEED=N is another one. Chance is for `make model`, `make chaos` and the fuzzers.
return math.tointeger(tonumber(os.getenv 'TIDE_TEST_SEED')) or 1
