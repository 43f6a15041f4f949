/** `npm run docs`: builds the documentation as a site in `dist/site`, or serves it on this machine while you edit. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { CommandError, messageOf, parseCommandLine, readFreePort, runCommand } from "./command.ts";
import { buildPlayground } from "./console-build.ts";
import { installPackages } from "./install-packages.ts";

const { base, serve, port } = parseCommandLine({
  base: { type: "string", default: "/", value: "path", about: "The path of the site, such as /headgate/" },
  serve: { type: "boolean", about: "Serve the site on this machine and follow edits, instead of building it" },
  port: { type: "string", default: "8790", about: "With --serve: the port", value: "port" },
});

const root = join(import.meta.dirname, "../..");
const site = join(root, "site");

/** The part of VitePress that this command uses. It is a package of `site`, so that its types are not installed here. */
interface VitePress {
  readonly build: (folder: string, options: { base: string }) => Promise<void>;
  readonly createServer: (
    folder: string,
    options: { base: string; port: number; strictPort: boolean },
  ) => Promise<Server>;
}

interface Server {
  readonly listen: () => Promise<unknown>;
}

await runCommand(async () => {
  if (!/^\/(?:.*\/)?$/.test(base)) {
    throw new CommandError(`--base: expected a path that begins and ends with "/", such as /headgate/, got "${base}"`);
  }
  const free = serve === true ? await readFreePort(port) : null;
  installPackages("site");
  const entry = pathToFileURL(join(site, "node_modules/vitepress/dist/node/index.js")).href;
  const vitepress: VitePress = await import(entry);
  if (free !== null) {
    const server = await vitepress.createServer(site, { base, port: free, strictPort: true });
    await server.listen();
    return console.log(`The documentation is on http://localhost:${free}${base}`);
  }
  try {
    await vitepress.build(site, { base });
  } catch (error) {
    // VitePress has printed which links are dead.
    throw new CommandError(messageOf(error));
  }
  // The page needs no server, and the examples of the documentation link it.
  cpSync(await buildPlayground(), join(root, "dist/site/playground/index.html"));
  console.log("The documentation is in dist/site");
});
