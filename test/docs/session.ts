/** Runs the commands of a page in order, against Headgate with the page's configuration, and compares their output. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RecipeOrigin } from "../system/recipe-origin.ts";
import { isConfiguration, isInvalid, readConfiguration } from "./configuration-blocks.ts";
import { difference, isOutput, outputsOf } from "./output.ts";
import type { Block, Page } from "./pages.ts";
import { startShell } from "./shell.ts";

/** A Headgate server whose configuration can be replaced and whose port stays the same. */
export interface Server {
  /** A folder with `.dev.vars`, in which the commands run. */
  readonly folder: string;
  readonly port: number;
  /** Serves the configuration in a block, or the demo limits. */
  readonly serve: (block: Block | null) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Pages whose commands run against `npm start` instead of the bundle. */
export const pagesOfNpmStart: readonly string[] = ["README.md", "docs/tutorials/first-limit.md"];

/** Pages whose commands run scripts of the project, and call no server. */
export const pagesOfScripts: readonly string[] = ["docs/how-to/choose-a-limit-from-your-traffic.md"];

export const isCommand = ({ language, info }: Block): boolean => language === "bash" && info.length === 0;

/** Returns one text for each failing command and each output that differs. */
export async function runSession(page: Page, server: Server, origin: RecipeOrigin): Promise<string[]> {
  const all = steps(page);
  let served = all[0]?.configuration ?? null;
  await server.serve(served);
  const shell = startShell(server.folder, await shellVariables(server.folder, origin));
  const problems: string[] = [];
  let line = 0;
  try {
    for (const { configuration, command } of all) {
      line = command.line;
      // Commands run one after the other.
      // oxlint-disable-next-line no-await-in-loop
      if (configuration !== served) await server.serve(configuration);
      served = configuration;
      // oxlint-disable-next-line no-await-in-loop
      const output = await shell.run(toLocal(command.text, server, origin));
      const shown = outputsOf(page, command);
      problems.push(...shown.flatMap((block) => problemOf(block, toShown(output, server, origin))));
    }
  } catch (error) {
    problems.push(`${page.path}:${line}: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    await shell.close();
  }
  return problems;
}

function problemOf(block: Block, output: string): string[] {
  const text = difference(block, output);
  return text === null ? [] : [`${block.page}:${block.line}: ${text}`];
}

interface Step {
  /** The last configuration above the command; null for the demo limits. */
  readonly configuration: Block | null;
  readonly command: Block;
}

/**
 * The commands of a page in order. The README's commands use the demo limits, because its configurations are only
 * examples.
 */
export function steps(page: Page): Step[] {
  let configuration: Block | null = null;
  return page.blocks.flatMap((block) => {
    if (page.path !== "README.md" && isServed(block)) configuration = block;
    return isCommand(block) ? [{ configuration, command: block }] : [];
  });
}

/** A block that sets nothing at the top level does not affect the commands. */
const isServed = (block: Block): boolean =>
  isConfiguration(block) && !isInvalid(block) && Object.keys(readConfiguration(block).vars).length > 0;

/** Output blocks that follow neither a command nor a rejected configuration, so that no test would check them. */
export const orphanedOutputs = (page: Page): Block[] => {
  const compared = new Set(
    page.blocks
      .filter((block) => isCommand(block) || (isConfiguration(block) && isInvalid(block)))
      .flatMap((block) => outputsOf(page, block)),
  );
  return page.blocks.filter((block) => isOutput(block) && !compared.has(block));
};

async function shellVariables(folder: string, origin: RecipeOrigin): Promise<Record<string, string>> {
  const secrets = readFileSync(join(folder, ".dev.vars"), "utf8");
  return {
    TOKEN: /^CHECK_TOKENS="(.+)"$/m.exec(secrets)?.[1] ?? "",
    ADMIN_TOKEN: /^ADMIN_TOKENS="(.+)"$/m.exec(secrets)?.[1] ?? "",
    USER_TOKEN: await origin.tokenOf({ sub: "alice" }),
    MEMBER_TOKEN: await origin.tokenOf({ sub: "carol", org: "acme" }),
    PRO_TOKEN: await origin.tokenOf({ sub: "bob", plan: "pro" }),
  };
}

const shownUrl = "localhost:8787";
const shownOrigin = "https://api.example.com";

const toLocal = (text: string, { port }: Server, origin: RecipeOrigin): string =>
  text.replaceAll(shownUrl, `localhost:${port}`).replaceAll(shownOrigin, origin.url);

const toShown = (text: string, { port }: Server, origin: RecipeOrigin): string =>
  text.replaceAll(`localhost:${port}`, shownUrl).replaceAll(origin.url, shownOrigin);
