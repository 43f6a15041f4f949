/**
 * Finds Chromium: a program in PATH, or else the one inside the npm package `@sparticuz/chromium` for Linux on x64, if
 * the packages of test/tools are installed. Downloads nothing. `HEADGATE_BROWSER=path` or `HEADGATE_BROWSER=npm` allows
 * only one of the two.
 */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { delimiter, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

export interface Chromium {
  /** Unpacks the program if it is packed, and returns how to start it. */
  readonly program: () => Promise<ChromiumProgram>;
}

export interface ChromiumProgram {
  readonly executablePath: string;
  /** Variables to add to the environment of this process. */
  readonly env: Readonly<Record<string, string>>;
}

/** Null when this machine has no Chromium. */
export function findChromium(): Chromium | null {
  const only = process.env["HEADGATE_BROWSER"];
  if (only !== undefined && only !== "path" && only !== "npm") {
    throw new Error(`HEADGATE_BROWSER: expected "path" or "npm", got "${only}"`);
  }
  const found = only === "npm" ? null : inPath();
  if (found !== null) return { program: async () => ({ executablePath: found, env: {} }) };
  if (only === "path" || !runsPackaged) return null;
  const entry = packagedEntry();
  return entry === null ? null : { program: () => unpacked(entry) };
}

const programs = ["chromium", "chromium-browser", "google-chrome"];

function inPath(): string | null {
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  const files = programs.flatMap((name) => folders.map((folder) => join(folder, name)));
  return files.find(isExecutable) ?? null;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const runsPackaged = process.platform === "linux" && process.arch === "x64";

const tools = join(import.meta.dirname, "../../tools");
/**
 * The folder into which the npm package is unpacked once. It lies beside the packages, so that an installation removes
 * it.
 */
const cache = join(tools, "node_modules/.cache");

/** The main file of the npm package; null when it is not installed. */
function packagedEntry(): string | null {
  try {
    return createRequire(join(tools, "package.json")).resolve("@sparticuz/chromium");
  } catch {
    return null;
  }
}

/** The exports of the npm package that the tests use. */
interface Packaged {
  readonly default: { readonly executablePath: (packed: string) => Promise<string> };
  readonly inflate: (file: string) => Promise<string>;
}

async function unpacked(entry: string): Promise<ChromiumProgram> {
  const packageFolder = join(dirname(entry), "..");
  const manifest = readFileSync(join(packageFolder, "package.json"), "utf8");
  const { version } = JSON.parse(manifest) as { version: string };
  const folder = join(cache, `chromium-${version}`);
  if (!existsSync(folder))
    await unpack((await import(pathToFileURL(entry).href)) as Packaged, join(packageFolder, "bin"), folder);
  const fonts = join(folder, "fonts.conf");
  return {
    executablePath: join(folder, "chromium"),
    // The package sets these only on AWS Lambda. Without fonts, every text has a width of 0 px and counts as hidden.
    env: { LD_LIBRARY_PATH: join(folder, "al2023/lib"), FONTCONFIG_FILE: fonts },
  };
}

/**
 * Unpacks into a folder of this process and renames it when it is complete, because several processes may unpack at the
 * same time.
 */
async function unpack({ default: chromium, inflate }: Packaged, packed: string, folder: string): Promise<void> {
  const { TMPDIR } = process.env;
  mkdirSync(cache, { recursive: true });
  const own = mkdtempSync(`${folder}-`);
  // The package unpacks into the folder for temporary files.
  process.env["TMPDIR"] = own;
  try {
    await chromium.executablePath(packed);
    await inflate(join(packed, "al2023.tar.br"));
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  }
  writeFileSync(join(own, "fonts.conf"), fontsConfiguration(folder));
  try {
    renameSync(own, folder);
  } catch (error) {
    // Another process has already unpacked it.
    rmSync(own, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
}

const fontsConfiguration = (folder: string): string => `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>${folder}/fonts</dir>
  <cachedir>${folder}/fonts-cache</cachedir>
</fontconfig>
`;
