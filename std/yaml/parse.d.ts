export interface ParseOptions {
  schema?: "core" | "default" | "failsafe" | "json" | "extended";
  allowDuplicateKeys?: boolean;
  onWarning?(error: Error): void;
}
export declare function parse(content: string, options?: ParseOptions): unknown;
