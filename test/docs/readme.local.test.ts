/** The denied request that the README shows is what `npm start` answers, apart from the seconds that have passed. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { startRecipeOrigin } from "../system/recipe-origin.ts";
import { npmStartServer } from "./npm-start-server.ts";
import { difference } from "./output.ts";
import { readPage } from "./pages.ts";

const { blocks } = readPage("README.md");
const [shown] = blocks.filter(({ language, info }) => language === "http" && info[0] === "denial");
const [command] = blocks.filter(({ language, text }) => language === "bash" && text.includes("curl -i"));

/** Replaces the seconds of the wait, which are fewer on a slow machine. */
const withoutSeconds = (text: string): string =>
  text.replaceAll(/(Retry-After: |;t=|Retry in )\d{1,2}(?: seconds?)?/g, "$1N");

it("the sixth request of the README gets the status, the fields and the body that the README shows", async () => {
  const origin = await startRecipeOrigin();
  const server = await npmStartServer(origin);
  try {
    await server.serve(null);
    const local = (command?.text ?? "").replaceAll("localhost:8787", `localhost:${server.port}`);
    const { stdout } = await promisify(execFile)("bash", ["-c", local]);
    const block = { language: "http", text: withoutSeconds(shown?.text ?? "") };
    expect(difference(block, withoutSeconds(stdout))).toBeNull();
  } finally {
    await server.close();
    origin.close();
  }
});
