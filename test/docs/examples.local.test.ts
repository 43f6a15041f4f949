/** The commands of each page run in order and print what the page shows. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type DemoOrigin, startDemoOrigin } from "../../src/cli/demo.ts";
import { type RecipeOrigin, startRecipeOrigin } from "../system/recipe-origin.ts";
import { bundle } from "../tools/workerd-process.ts";
import { bundleServer } from "./bundle-server.ts";
import { npmStartServer } from "./npm-start-server.ts";
import { type Page, readPages } from "./pages.ts";
import { projectFolder } from "./project-folder.ts";
import { isCommand, pagesOfNpmStart, pagesOfScripts, runSession, type Server } from "./session.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-bundle-"));
let origin: RecipeOrigin;
let demoOrigin: DemoOrigin;

beforeAll(async () => {
  origin = await startRecipeOrigin();
  demoOrigin = await startDemoOrigin();
  bundle(folder);
});

afterAll(() => {
  origin.close();
  demoOrigin.close();
  rmSync(folder, { recursive: true, force: true });
});

async function serverOf(path: string): Promise<Server> {
  if (pagesOfScripts.includes(path)) return projectFolder();
  return pagesOfNpmStart.includes(path) ? npmStartServer(origin) : bundleServer(folder, origin, demoOrigin.url);
}

async function problemsOf(page: Page): Promise<string[]> {
  const server = await serverOf(page.path);
  try {
    return await runSession(page, server, origin);
  } finally {
    await server.close();
  }
}

const pages = readPages()
  .filter(({ blocks }) => blocks.some(isCommand))
  .map((page) => ({ path: page.path, page }));

it.each(pages)("the commands of $path print what the page shows", async ({ page }) => {
  expect(await problemsOf(page)).toEqual([]);
});
