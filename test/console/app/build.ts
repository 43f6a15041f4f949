/** Builds the console before the tests: `[assets]` in `wrangler.toml` names its folder. */
export { buildConsole as setup } from "../../../src/cli/console-build.ts";
