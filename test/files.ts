/** The files of the tests, without those of installed packages. */
import { globSync } from "node:fs";

/** @returns paths from the root of the repository, such as `test/files.ts` */
export const filesOfTests = (suffix: string): string[] =>
  globSync(`test/**/*${suffix}`, { exclude: ["**/node_modules"] }).toSorted();
