/**
 * Installs the packages of test/tools. `npm run bench`, `npm run screenshots` and `npm run test:full` do this first. Run
 * it alone with `npx node test/tools/install.ts`.
 */
import { installPackages } from "../../src/cli/install-packages.ts";

export const installTools = (): void => installPackages("test/tools");

/** The global setup of tests that use these packages. */
export const setup = installTools;

if (import.meta.main) installTools();
